package sim

// bindingMutants must all be caught.
var bindingMutants = []mutant{}
