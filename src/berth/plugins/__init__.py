"""The in-tree plugins, one module each, named after the reference's; `registry` lists them."""
