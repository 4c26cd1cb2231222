// Command site makes a site of the pages of the repository: HTML that is read without a server and
// without a network, with a search over all sections.
//
//	site -out DIR REPOSITORY
//
// The pages are README.md, everything below docs, and the pages that these link to. A page keeps its
// path, and README.md becomes index.html. A link to a file that is no page leads to the repository's
// host. A link between pages that leads nowhere is an error, and nothing is written then. What is
// written depends on the pages only.
package main
