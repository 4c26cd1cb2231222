// Package datasource is the validator of data sources: it emits an event on each claim whose source is of a
// kind that no VolumePopulator names, so that a claim does not wait silently for a populator that is not
// installed. internal/datasource/rules decides.
//
// A claim is checked when it is created, and again when a VolumePopulator of its kind comes or goes; upstream
// checks it at each of its updates, and not when populators change (DV-H1).
//
// # Permissions
//
//	persistentvolumeclaims and volumepopulators get, list, watch; events create, patch
package datasource
