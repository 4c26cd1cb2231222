package grow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/names"
)

// Saved is a StatefulSet that is being replaced.
type Saved struct {
	Old types.UID           // of the object that is deleted
	New *appsv1.StatefulSet // that is created
	// Before is the old object without what only the API server writes: it is created if the new
	// one is refused.
	Before *appsv1.StatefulSet

	secret *corev1.Secret
}

const (
	keyOld, keyNew, keyBefore = "old-uid", "new.json", "before.json"
)

// Load returns what an earlier command has saved; nil for nothing.
func Load(ctx context.Context, cfg Config) (*Saved, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cfg.Namespace, Name: rules.SavedName(cfg.Set)}
	err := cfg.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nothing is saved
	}
	if err != nil {
		return nil, fmt.Errorf("whether an earlier replacement is unfinished: secret/%s: %w", key.Name, err)
	}
	s := &Saved{
		Old: types.UID(secret.Data[keyOld]), New: &appsv1.StatefulSet{}, Before: &appsv1.StatefulSet{}, secret: secret,
	}
	err = errors.Join(json.Unmarshal(secret.Data[keyNew], s.New), json.Unmarshal(secret.Data[keyBefore], s.Before))
	if err != nil || secret.Type != names.GrowSecretType || s.New.Name != cfg.Set || s.Before.Name != cfg.Set {
		return nil, fmt.Errorf("secret/%s -n %s: it is not what this command writes; look into it, and delete it",
			key.Name,
			key.Namespace)
	}
	return s, nil
}

// Unfinished returns what an earlier command has saved if the old StatefulSet is gone or being
// deleted. As long as it is there, nothing is lost without what was saved, which may be older than
// the object.
func Unfinished(ctx context.Context, cfg Config) (*Saved, error) {
	s, err := Load(ctx, cfg)
	if s == nil || err != nil {
		return nil, err
	}
	have := &appsv1.StatefulSet{}
	err = cfg.Client.Get(ctx, cfg.key(), have)
	if err != nil || have.UID != s.Old || have.DeletionTimestamp != nil {
		return s, client.IgnoreNotFound(err)
	}
	return nil, nil //nolint:nilnil // nothing is unfinished
}

// save writes the Secret, before the StatefulSet is deleted.
func (cfg Config) save(ctx context.Context, old *appsv1.StatefulSet, plan rules.GrowPlan) (*Saved, error) {
	s := &Saved{Old: old.UID, New: rules.Replacement(old, plan.Template, cfg.Size)}
	for i := range old.Spec.VolumeClaimTemplates {
		if t := &old.Spec.VolumeClaimTemplates[i]; t.Name == plan.Template {
			s.Before = rules.Replacement(old, t.Name, t.Spec.Resources.Requests[corev1.ResourceStorage])
		}
	}
	encodedNew, err := json.Marshal(s.New)
	if err != nil {
		return nil, err
	}
	encodedBefore, err := json.Marshal(s.Before)
	if err != nil {
		return nil, err
	}
	isFixed := true
	s.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cfg.Namespace, Name: rules.SavedName(cfg.Set),
			Labels: map[string]string{names.LabelManagedBy: names.ManagedByPurser},
		},
		Immutable: &isFixed, Type: names.GrowSecretType,
		Data: map[string][]byte{keyOld: []byte(old.UID), keyNew: encodedNew, keyBefore: encodedBefore},
	}
	err = cfg.Client.Delete(ctx, s.secret.DeepCopy()) // of a command that ended before the deletion
	if client.IgnoreNotFound(err) == nil {
		err = cfg.Client.Create(ctx, s.secret)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"keep the StatefulSet in secret/%s: %w; the StatefulSet is as before", s.secret.Name, err,
		)
	}
	cfg.Progress("kept the StatefulSet in secret/%s", s.secret.Name)
	return s, nil
}

// Replace replaces the StatefulSet.
func Replace(ctx context.Context, cfg Config, plan rules.GrowPlan) error {
	old := &appsv1.StatefulSet{} // once more: it may have changed while its claims were expanded
	key := client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Set}
	if err := cfg.Client.Get(ctx, key, old); err != nil {
		return fmt.Errorf("sts/%s: %w", cfg.Set, err)
	}
	saved, err := cfg.save(ctx, old, plan)
	if err != nil {
		return err
	}
	return Resume(ctx, cfg, saved)
}

// criticalTime bounds what is done after Ctrl-C: the pods have no controller between deletion and
// creation.
const criticalTime = 2 * time.Minute

// Resume goes on where an earlier command ended: it deletes the old object if it is there, creates
// the new one if none is there, and waits until it has the pods. From the deletion to the creation
// it does not end with ctx.
func Resume(ctx context.Context, cfg Config, s *Saved) error {
	have := &appsv1.StatefulSet{}
	critical, stop := context.WithTimeout(context.WithoutCancel(ctx), criticalTime)
	defer stop()
	err := cfg.Client.Get(ctx, cfg.key(), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("sts/%s: %w", cfg.Set, err)
	}
	if err == nil && have.UID != s.Old && !rules.HasTemplates(have, s.New) {
		return fmt.Errorf("sts/%s is neither the one that was to be replaced nor the new one: another client made "+
			"it; look at secret/%s, and delete it", cfg.Set, s.secret.Name)
	}
	if err == nil && have.UID == s.Old {
		if err := cfg.remove(critical, have); err != nil {
			return err
		}
	}
	if err != nil || have.UID == s.Old {
		if have, err = cfg.create(critical, s); err != nil {
			return fmt.Errorf(
				"%w\nThe StatefulSet is in secret/%s: repeat the command to create it", err, s.secret.Name,
			)
		}
	}
	if err := client.IgnoreNotFound(cfg.Client.Delete(critical, s.secret)); err != nil {
		return fmt.Errorf("delete secret/%s, which is not needed any more: %w", s.secret.Name, err)
	}
	if !rules.HasTemplates(have, s.New) {
		return errors.New("the API server refused the new StatefulSet, so the old one was created again")
	}
	return cfg.until(ctx, func(ctx context.Context) (string, error) { return cfg.withoutController(ctx, have) })
}

func (cfg Config) key() client.ObjectKey {
	return client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Set}
}

// remove deletes the old object without its pods, and waits until it is gone.
func (cfg Config) remove(ctx context.Context, old *appsv1.StatefulSet) error {
	if old.DeletionTimestamp == nil {
		if err := cfg.deleteUnchanged(ctx, old); err != nil {
			return fmt.Errorf("delete sts/%s: %w; it is as before; repeat the command", cfg.Set, err)
		}
		cfg.Progress("deleted sts/%s, its pods go on", cfg.Set)
	}
	return cfg.until(ctx, func(ctx context.Context) (string, error) {
		have := &appsv1.StatefulSet{}
		err := cfg.Client.Get(ctx, cfg.key(), have)
		if apierrors.IsNotFound(err) || err == nil && have.UID != old.UID {
			return "", nil
		}
		return fmt.Sprintf("sts/%s is still there with the finalizers %v; kube-controller-manager's garbage "+
			"collector removes that of orphans", cfg.Set, have.Finalizers), err
	})
}

// deleteUnchanged deletes the object as it was saved. Its status may change meanwhile, and nothing
// else.
func (cfg Config) deleteUnchanged(ctx context.Context, old *appsv1.StatefulSet) error {
	const attempts = 10
	have := old.DeepCopy()
	for range attempts {
		err := cfg.Client.Delete(ctx, have, client.PropagationPolicy(metav1.DeletePropagationOrphan),
			client.Preconditions{UID: &old.UID, ResourceVersion: &have.ResourceVersion})
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := cfg.Client.Get(ctx, cfg.key(), have); err != nil {
			return client.IgnoreNotFound(err)
		}
		if have.UID != old.UID || have.Generation != old.Generation || !maps.Equal(have.Labels, old.Labels) ||
			!maps.Equal(have.Annotations, old.Annotations) {
			return errors.New("another client has changed it meanwhile")
		}
	}
	return fmt.Errorf("it changes all the time: %d conflicts", attempts)
}

// create creates the new object, and the old one again if the API server refuses the new one for
// good.
func (cfg Config) create(ctx context.Context, s *Saved) (have *appsv1.StatefulSet, err error) {
	wanted := s.New
	err = cfg.until(ctx, func(ctx context.Context) (string, error) {
		have = wanted.DeepCopy()
		err := cfg.Client.Create(ctx, have)
		if apierrors.IsAlreadyExists(err) { // by a request whose answer was lost, or by another client
			return "", cfg.Client.Get(ctx, cfg.key(), have)
		}
		if text, isRefused := refusal(err); isRefused {
			if wanted == s.Before {
				return "", stopped{fmt.Errorf("create sts/%s: %s", cfg.Set, text)}
			}
			cfg.Progress("the new sts/%s is refused, creating the old one again: %s", cfg.Set, text)
			wanted = s.Before
			return text, nil
		}
		return "", err
	})
	if err == nil {
		cfg.Progress("created sts/%s", cfg.Set)
	}
	return have, err
}

// withoutController says which pods the new StatefulSet does not control yet.
func (cfg Config) withoutController(ctx context.Context, set *appsv1.StatefulSet) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return "", stopped{err}
	}
	var pods corev1.PodList
	if err := cfg.Client.List(
		ctx, &pods, client.InNamespace(cfg.Namespace), client.MatchingLabelsSelector{Selector: selector},
	); err != nil {
		return "", err
	}
	for i := range pods.Items {
		if owner := metav1.GetControllerOf(&pods.Items[i]); owner == nil || owner.UID != set.UID {
			return fmt.Sprintf("pod/%s has not been adopted by the new StatefulSet yet", pods.Items[i].Name), nil
		}
	}
	cfg.Progress("sts/%s controls its pods (%d)", cfg.Set, len(pods.Items))
	return "", nil
}
