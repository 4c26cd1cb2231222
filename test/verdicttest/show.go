package verdicttest

import (
	"fmt"
	"strings"

	"github.com/purser-csi/purser/internal/verdict"
)

// Show returns a verdict as text: its kind and reason, or the types of its actions and the verdict
// after them.
func Show[A any](v verdict.Verdict[A]) string {
	switch v := v.(type) {
	case verdict.Nothing[A]:
		return "nothing " + string(v.Reason)
	case verdict.Wait[A]:
		return "wait " + string(v.Reason)
	case verdict.Refuse[A]:
		return "refuse " + string(v.Reason)
	case verdict.Read[A]:
		return fmt.Sprintf("read %s", v.Refs)
	case verdict.Do[A]:
		var all []string
		for _, a := range v.Actions {
			name := fmt.Sprintf("%T", a)
			all = append(all, name[strings.LastIndex(name, ".")+1:])
		}
		text := "do " + strings.Join(all, ",")
		if v.Then != nil {
			text += "; " + Show(v.Then)
		}
		return text
	}
	return "?"
}
