// Command plugin-manager is the part of a kubelet that registers plugins, from k8s.io/kubernetes,
// without the rest of the kubelet: it watches a folder, asks each socket in it, and prints a line for
// each plugin that it registers or deregisters. The tests of the registrar run it in place of a
// kubelet.
//
//	plugin-manager FOLDER REFUSE
//
// While the file REFUSE exists, its text is why a registration is refused.
package main
