package secretref

import (
	"regexp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/shell"
)

// account is a service account as a user name of the API server.
var account = regexp.MustCompile(`^system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)$`)

// PermitRead returns the commands that let an account read the secret, and no other secret. user is its
// name for the API server, from the API server's own answer or from a status field, never from an event:
// any user of a namespace can write one.
func PermitRead(ref types.NamespacedName, user string) shell.Line {
	if found := account.FindStringSubmatch(user); found != nil {
		return permit(ref) + shell.Command(" --serviceaccount=%s:%s", found[1], found[2])
	}
	return permit(ref) + shell.Command(" --user=%s", user)
}

// PermitReadBy returns the commands for the service account of a program, such as PROVISIONER, which an
// administrator has to fill in: the API server accepts no capital letters in its name.
func PermitReadBy(ref types.NamespacedName, program string) shell.Line {
	return permit(ref) + shell.Command(" --serviceaccount=NAMESPACE:NAME-OF-THE-%s", program)
}

// permit returns the commands up to the account.
func permit(ref types.NamespacedName) shell.Line {
	return shell.Command("kubectl -n %s create role read-%s --verb=get --resource=secrets --resource-name=%s && "+
		"kubectl -n %s create rolebinding read-%s --role=read-%s",
		ref.Namespace, ref.Name, ref.Name, ref.Namespace, ref.Name, ref.Name)
}

// refused is the message of the API server about a secret that may not be read.
var refused = regexp.MustCompile(
	`secrets "([^"]+)" is forbidden: User "([^"]+)" cannot get resource "secrets" ` +
		`in API group "" in the namespace "([^"]+)"`)

// Refused returns the secret and the account of a message with a refusal of the API server to read a
// secret; ok is false for another message.
func Refused(message string) (ref types.NamespacedName, user string, ok bool) {
	found := refused.FindStringSubmatch(message)
	if found == nil {
		return ref, "", false
	}
	return types.NamespacedName{Namespace: found[3], Name: found[1]}, found[2], true
}

// Kinds returns all kinds of calls with a secret.
func Kinds() []Kind {
	var all []Kind
	for k := range kinds {
		all = append(all, k)
	}
	return all
}
