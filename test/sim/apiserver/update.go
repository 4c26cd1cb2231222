package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// part is the half of an object that a write reaches.
type part string

const (
	main   part = ""
	status part = "status"
)

func (s *Server) update(st *strategy, which part, in client.Object) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := transmit(st, in)
	if err != nil {
		return nil, err
	}
	have := s.tables[st].objects[client.ObjectKeyFromObject(o)]
	switch {
	case have == nil && st.createOnUpdate && o.GetUID() == "": // whatever its version
		return clone(s.insert(st, o)), nil
	case have == nil && st.createOnUpdate:
		return nil, apierrors.NewConflict(
			st.resource,
			o.GetName(),
			fmt.Errorf("the uid in the precondition is %s, there is no object", o.GetUID()),
		)
	case have == nil:
		return nil, apierrors.NewNotFound(st.resource, o.GetName())
	case o.GetResourceVersion() == "" && !st.unconditional:
		return nil, invalid(st, o, "metadata.resourceVersion", "must be specified for an update")
	}
	only := &metav1.Preconditions{}
	if uid := o.GetUID(); uid != "" {
		only.UID = &uid
	}
	if err := unmet(st.resource, have, only); err != nil {
		return nil, err
	}
	return s.replace(st, which, o, have)
}

// replace makes o the new state where it may be. The caller holds mu and owns o.
func (s *Server) replace(st *strategy, which part, o, have client.Object) (client.Object, error) {
	if v := o.GetResourceVersion(); v != "" && v != have.GetResourceVersion() {
		return nil, apierrors.NewConflict(st.resource, o.GetName(),
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := o.GetUID(); uid != "" && uid != have.GetUID() {
		return nil, invalid(st, o, "metadata.uid", "field is immutable")
	}
	forget := which == main && equality.Semantic.DeepEqual(o.GetManagedFields(), []metav1.ManagedFieldsEntry{{}})
	keepSystemFields(o, have)
	if forget {
		o.SetManagedFields(nil)
	}
	switch {
	case which == main && st.keepStatus != nil:
		st.keepStatus(o, have)
	case which == status:
		st.keepSpec(o, have)
		if st.stamp != nil {
			st.stamp(o, have)
		}
	}
	if what := forbidden(st, o, have); what != "" {
		return nil, invalid(st, o, what, "may not be changed now")
	}
	switch {
	case have.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0:
		answer := clone(o) // it carries the version from before the deletion, which the deletion's event does not
		s.commit(st, watch.Deleted, o)
		return answer, nil
	case equality.Semantic.DeepEqual(o, have):
		return clone(have), nil // writing what is there already is no change
	}
	s.commit(st, watch.Modified, o)
	return clone(o), nil
}

func keepSystemFields(o, have client.Object) {
	o.SetUID(have.GetUID())
	o.SetResourceVersion(have.GetResourceVersion())
	o.SetCreationTimestamp(have.GetCreationTimestamp())
	o.SetDeletionTimestamp(have.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(have.GetDeletionGracePeriodSeconds())
	o.SetGeneration(have.GetGeneration())
	o.SetManagedFields(have.GetManagedFields())
}

func forbidden(st *strategy, o, have client.Object) string {
	if have.GetDeletionTimestamp() != nil {
		for _, f := range o.GetFinalizers() {
			if !slices.Contains(have.GetFinalizers(), f) {
				return "metadata.finalizers"
			}
		}
	}
	if st.frozen == nil {
		return ""
	}
	return st.frozen(o, have)
}

func invalid(st *strategy, o client.Object, path, why string) error {
	return apierrors.NewInvalid(
		st.kind.GroupKind(),
		o.GetName(),
		field.ErrorList{field.Forbidden(field.NewPath(path), why)},
	)
}

// change is a patch as it was sent.
type change struct {
	kind types.PatchType
	data []byte
}

func (s *Server) patch(st *strategy, which part, key types.NamespacedName, c change) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.tables[st].objects[key]
	if have == nil {
		return nil, apierrors.NewNotFound(st.resource, key.Name)
	}
	before, err := json.Marshal(have)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	after, err := c.apply(st, before)
	if err != nil {
		return nil, err
	}
	o := st.create()
	if err := json.Unmarshal(after, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.replace(st, which, o, have)
}

func (c change) apply(st *strategy, before []byte) ([]byte, error) {
	switch c.kind {
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(c.data)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := patch.Apply(before)
		if err != nil { // a test that failed, most of all
			return nil, apierrors.NewGenericServerResponse(
				http.StatusUnprocessableEntity,
				"",
				schema.GroupResource{},
				"",
				err.Error(),
				0,
				false,
			)
		}
		return after, nil
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, c.data, st.create())
	case types.MergePatchType:
		var object, patch map[string]any
		if err := json.Unmarshal(before, &object); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(c.data, &patch); err != nil {
			return nil, err
		}
		return json.Marshal(merge(object, patch))
	default:
		return nil, apierrors.NewBadRequest("patches of type " + string(c.kind) + " are not served")
	}
}

// merge is RFC 7396.
func merge(object, patch map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			inner, _ := object[k].(map[string]any)
			object[k] = merge(inner, v)
		default:
			object[k] = v
		}
	}
	return object
}

// transmit is what arrives of an object that is sent as JSON.
func transmit(st *strategy, in client.Object) (client.Object, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := st.create()
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as a typed client has it
	return out, nil
}
