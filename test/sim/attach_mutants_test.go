package sim

// attachMutants must all be caught.
var attachMutants = []mutant{}
