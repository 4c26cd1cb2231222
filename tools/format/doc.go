// Command format breaks the lines of Go files that are longer than 120 columns, a tab being four:
//
//	format [-l] FOLDER...
//
// It breaks a line at the outermost list on it that serves (arguments, parameters, elements), at an
// && or || of a condition, or at a space of a text. With -l it changes nothing, and lists what it
// would change. Files with the comment "Code generated ... DO NOT EDIT." and tests stay as they are.
//
// It knows the syntax alone, never what a program means: the parts of a file, in their order, are
// the same before and after, except that texts are split.
package main
