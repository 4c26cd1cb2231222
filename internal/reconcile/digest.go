package reconcile

import (
	"hash/maphash"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/verdict"
)

// seed is the process's own: digests are compared with each other only.
var seed = maphash.MakeSeed()

// kindsOf returns a digest of a reason and of the types of the actions.
func kindsOf[A any](reason verdict.Reason, actions []A) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(string(reason))
	for _, a := range actions {
		if t := reflect.TypeOf(a); t != nil {
			h.WriteString(t.String())
		}
	}
	return h.Sum64()
}

// digestOf returns a digest of values with all that they refer to. It leaves out what every write
// changes: resource versions, generations, times and the managers of fields.
func digestOf(values ...any) uint64 {
	d := digester{}
	d.SetSeed(seed)
	for _, v := range values {
		d.add(reflect.ValueOf(v), deepest)
	}
	return max(d.Sum64(), 1) // 0 is none
}

// deepest bounds the depth of what is digested, for values that refer to themselves.
const deepest = 24

type digester struct{ maphash.Hash }

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	messageType  = reflect.TypeFor[proto.Message]()
	timeType     = reflect.TypeFor[time.Time]()
	volatile     = map[string]bool{
		"ResourceVersion": true, "Generation": true, "ManagedFields": true, "ObservedGeneration": true,
	}
)

func (d *digester) add(v reflect.Value, depth int) {
	if !v.IsValid() || depth == 0 || v.Type() == timeType {
		d.WriteByte(0)
		return
	}
	if v.Type() == quantityType && v.CanInterface() { // one number has several forms
		q := v.Interface().(resource.Quantity)
		d.WriteString(q.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			d.WriteByte(0)
			return
		}
		if v.Kind() == reflect.Interface {
			d.WriteString(v.Elem().Type().String())
		}
		d.add(v.Elem(), depth-1)
	case reflect.Struct:
		d.addFields(v, depth)
	case reflect.Slice, reflect.Array:
		maphash.WriteComparable(&d.Hash, v.Len())
		for i := range v.Len() {
			d.add(v.Index(i), depth-1)
		}
	case reflect.Map:
		d.addMap(v, depth)
	default:
		d.addScalar(v)
	}
}

// addFields adds the fields of a struct. Those of a message that are not exported are for the library of
// protobuf: they change with use, and lead to the descriptions of all messages.
func (d *digester) addFields(v reflect.Value, depth int) {
	t := v.Type()
	message := reflect.PointerTo(t).Implements(messageType)
	for i := range v.NumField() {
		if field := t.Field(i); !volatile[field.Name] && (field.IsExported() || !message) {
			d.add(v.Field(i), depth-1)
		}
	}
}

// addMap adds the entries of a map, in whatever order they come.
func (d *digester) addMap(v reflect.Value, depth int) {
	var sum uint64
	for entries := v.MapRange(); entries.Next(); {
		one := digester{}
		one.SetSeed(seed)
		one.add(entries.Key(), depth-1)
		one.add(entries.Value(), depth-1)
		sum += one.Sum64()
	}
	maphash.WriteComparable(&d.Hash, sum)
}

func (d *digester) addScalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		maphash.WriteComparable(&d.Hash, v.String())
	case v.Kind() == reflect.Bool:
		maphash.WriteComparable(&d.Hash, v.Bool())
	case v.CanInt():
		maphash.WriteComparable(&d.Hash, v.Int())
	case v.CanUint():
		maphash.WriteComparable(&d.Hash, v.Uint())
	case v.CanFloat():
		maphash.WriteComparable(&d.Hash, v.Float())
	default: // a function or a channel is no state
		d.WriteByte(0)
	}
}
