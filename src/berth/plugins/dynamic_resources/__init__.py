"""DynamicResources: pods get the devices that their claims ask for."""
