// Marks the root of the module. What is built is pinned per Kubernetes minor in go-1.36.mod and go-1.37.mod.
module upstream

go 1.26.0
