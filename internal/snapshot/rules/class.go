package snapshotting

import "fmt"

// DefaultClass returns the one default class of a driver, or the problem: there is none, or more
// than one (SN-Q2). Kind is what the class is of, as messages name it.
func DefaultClass[Class any](
	kind string, defaults []Class, driver string, driverOf func(*Class) string,
) (class *Class, problem string) {
	count := 0
	for i := range defaults {
		if driverOf(&defaults[i]) == driver {
			class, count = &defaults[i], count+1
		}
	}
	switch count {
	case 1:
		return class, ""
	case 0:
		return nil, fmt.Sprintf("Failed to set default %s class with error cannot find default %[1]s class", kind)
	}
	return nil, fmt.Sprintf(
		"Failed to set default %s class with error %d default %[1]s classes were found", kind, count,
	)
}
