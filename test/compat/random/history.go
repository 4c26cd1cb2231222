package random

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/purser-csi/purser/test/compat/scenario"
)

// Few names, so that steps meet.
var (
	claims  = rapid.SampledFrom([]string{"c1", "c2", "c3"})
	volumes = rapid.SampledFrom([]string{"v1", "v2", "v3"})
	pods    = rapid.SampledFrom([]string{"p1", "p2"})
	classes = rapid.SampledFrom([]string{"static", "made", "late"})
	sizes   = rapid.SampledFrom([]string{"1Gi", "2Gi", "3Gi"})
	modes   = rapid.SampledFrom([]string{"RWO", "RWO", "RWO", "RWO,RWX", "RWX"})
)

const furniture = `# A random history.
class static
class made provisioner=csi.example.com reclaim=Delete
class late provisioner=csi.example.com wffc
`

// History draws a history as text, which can be kept as a scenario.
func History(t *rapid.T) string {
	moves := rapid.SliceOfN(rapid.Custom(move), 8, 40).Draw(t, "moves")
	return furniture + strings.Join(moves, "\n") + "\n"
}

// Scenario reads a history, under a name.
func Scenario(name, history string) (scenario.Scenario, error) {
	s, err := scenario.Parse(history)
	s.Name = name
	return s, err
}

// move is one line.
func move(t *rapid.T) string {
	makers := []func(*rapid.T) string{
		claim,
		claim,
		claim,
		volume,
		volume,
		madeVolume,
		pod,
		remove,
		remove,
		spoil,
		spoil,
		pause,
	}
	return rapid.SampledFrom(makers).Draw(t, "kind")(t)
}

func claim(t *rapid.T) string {
	line := fmt.Sprintf(
		"pvc %s %s %s class=%s",
		claims.Draw(t, "claim"),
		sizes.Draw(t, "size"),
		modes.Draw(t, "modes"),
		classes.Draw(t, "class"),
	)
	switch rapid.IntRange(0, 5).Draw(t, "extra") {
	case 0:
		line += " volume=" + volumes.Draw(t, "volume")
	case 1:
		line += " node=n1"
	case 2:
		line += " select=tier=gold"
	}
	return line
}

func volume(t *rapid.T) string {
	line := fmt.Sprintf(
		"pv %s %s %s class=%s",
		volumes.Draw(t, "volume"),
		sizes.Draw(t, "size"),
		modes.Draw(t, "modes"),
		classes.Draw(t, "class"),
	)
	switch rapid.IntRange(0, 7).Draw(t, "extra") {
	case 0:
		line += " claim=" + claims.Draw(t, "claim")
	case 1:
		line += " labels=tier=gold"
	case 2:
		of := claims.Draw(t, "claim")
		line += fmt.Sprintf(" claim=%s uid=%s by-controller", of, of)
	case 3:
		of := claims.Draw(t, "claim")
		line += fmt.Sprintf(" claim=%s uid=%s", of, of)
	case 4: // copied by hand, with another name in it
		line += fmt.Sprintf(" claim=%s uid=%s", claims.Draw(t, "name"), claims.Draw(t, "claim"))
	}
	return line
}

// madeVolume is a volume that a provisioner creates for a claim, with or without the annotation.
func madeVolume(t *rapid.T) string {
	of := claims.Draw(t, "claim")
	return fmt.Sprintf("pv %s %s %s class=made policy=Delete provisioned-by=csi.example.com claim=%s uid=%s",
		volumes.Draw(t, "volume"), sizes.Draw(t, "size"), modes.Draw(t, "modes"), of, of)
}

func pod(t *rapid.T) string {
	line := fmt.Sprintf("pod %s claims=%s", pods.Draw(t, "pod"), claims.Draw(t, "claim"))
	if rapid.Bool().Draw(t, "scheduled") {
		line += " node=n1"
	}
	return line
}

func remove(t *rapid.T) string {
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		return "delete pv " + volumes.Draw(t, "volume")
	case 1:
		return "delete pod " + pods.Draw(t, "pod")
	}
	return "delete pvc " + claims.Draw(t, "claim")
}

// spoil is a harmful action of a user.
func spoil(t *rapid.T) string {
	v, c := volumes.Draw(t, "volume"), claims.Draw(t, "claim")
	return rapid.SampledFrom([]string{
		fmt.Sprintf(`patch pv %s '{"spec":{"claimRef":null}}'`, v),
		fmt.Sprintf(`patch pv %s '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'`, v),
		fmt.Sprintf(`patch pv %s '{"metadata":{"finalizers":null}}'`, v),
		fmt.Sprintf(`patch pv %s '{"metadata":{"labels":{"tier":"gold"}}}'`, v),
		fmt.Sprintf(`patch pv %s '{"spec":{"capacity":{"storage":"3Gi"}}}'`, v),
		fmt.Sprintf(`patch pv %s '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`, v),
		fmt.Sprintf(`patch pvc %s '{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}'`, c),
		fmt.Sprintf(`patch pvc %s '{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n1"}}}'`, c),
		fmt.Sprintf(`patch pvc %s '{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null}}}'`, c),
		fmt.Sprintf(`patch pvc %s '{"metadata":{"finalizers":null}}'`, c),
		fmt.Sprintf(`patch pvc %s '{"spec":{"volumeName":"<%s>"}}'`, c, v),
		fmt.Sprintf(`status pvc %s '{"status":{"phase":"Pending"}}'`, c),
		fmt.Sprintf(`status pv %s '{"status":{"phase":"Available"}}'`, v),
	}).Draw(t, "spoil")
}

func pause(*rapid.T) string { return "settle" }
