package health

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// Conditions are the problems of one volume as a claim has them, sorted by status and reason. None means
// that no problem is known.
type Conditions = []corev1.VolumeHealthCondition

// Report is what a driver says about one volume, as far as a claim can have it.
type Report struct {
	Conditions Conditions
	// Unknown are the statuses that this version does not know, without duplicates, at most mostUnknown. They
	// are not stored.
	Unknown []int32
}

// The limits of the API server: a claim that exceeds one is refused, and then shows nothing (HM-30, HM-H2).
const (
	MostConditions = 16
	mostReason     = 256
	mostMessage    = 1024
)

// The limits of what is read of a driver's answer about one volume: its statuses, and the numbers among them
// that this version does not know, each of which has an event.
const (
	mostStatuses = 256
	mostUnknown  = 4
)

// unnamed is the reason of a condition without a usable one. The API server requires a reason.
const unnamed = "Unspecified"

// statuses are the statuses of the CSI specification (HM-24).
var statuses = map[csi.VolumeHealthErrorType]corev1.VolumeHealthStatusType{
	csi.VolumeHealthErrorType_DEGRADED:     corev1.VolumeHealthDegraded,
	csi.VolumeHealthErrorType_INACCESSIBLE: corev1.VolumeHealthInaccessible,
	csi.VolumeHealthErrorType_DATA_LOSS:    corev1.VolumeHealthDataLoss,
}

// severities orders the statuses, the worst first.
var severities = []corev1.VolumeHealthStatusType{
	corev1.VolumeHealthDataLoss, corev1.VolumeHealthInaccessible, corev1.VolumeHealthDegraded,
}

// ReportOf returns a driver's answer about one volume within the limits of the API server. Of more than
// [MostConditions] conditions it keeps the worst. Of two with one status and reason it keeps the first
// (HM-25). Statuses after the first mostStatuses are not read.
func ReportOf(answer *csi.VolumeHealth) Report {
	var r Report
	all := answer.GetHealthStatuses()
	for _, entry := range all[:min(len(all), mostStatuses)] {
		status, known := statuses[entry.GetStatus()]
		if !known {
			if number := int32(entry.GetStatus()); !slices.Contains(r.Unknown, number) {
				r.Unknown = append(r.Unknown, number)
			}
			continue
		}
		one := corev1.VolumeHealthCondition{
			Status: status, Reason: reasonOf(entry.GetReason()), Message: cut(entry.GetMessage(), mostMessage),
		}
		if !slices.ContainsFunc(r.Conditions, func(have corev1.VolumeHealthCondition) bool {
			return have.Status == one.Status && have.Reason == one.Reason
		}) {
			r.Conditions = append(r.Conditions, one)
		}
	}
	if len(r.Conditions) > MostConditions {
		slices.SortStableFunc(r.Conditions, func(a, b corev1.VolumeHealthCondition) int {
			return cmp.Compare(slices.Index(severities, a.Status), slices.Index(severities, b.Status))
		})
		r.Conditions = r.Conditions[:MostConditions]
	}
	r.Conditions = sorted(r.Conditions)
	slices.Sort(r.Unknown)
	r.Unknown = r.Unknown[:min(len(r.Unknown), mostUnknown)]
	return r
}

// sorted returns the conditions in the order in which they are compared and stored (HM-44).
func sorted(all Conditions) Conditions {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b corev1.VolumeHealthCondition) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// reasonOf returns a driver's reason as the API server takes it: letters, digits and underscores, with
// commas and colons between them, and a letter first. Other characters are left out.
func reasonOf(text string) string {
	kept := strings.Map(func(r rune) rune {
		if isAlphanumeric(r) || r == '_' || r == ',' || r == ':' {
			return r
		}
		return -1
	}, text)
	kept = strings.TrimLeftFunc(kept, func(r rune) bool { return !isAlphanumeric(r) || r >= '0' && r <= '9' })
	if kept = strings.TrimRight(cut(kept, mostReason), ",:"); kept == "" {
		return unnamed
	}
	return kept
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// cut returns at most a number of bytes of a text, and no part of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Worst returns the worst status of the conditions; empty for none.
func Worst(all Conditions) corev1.VolumeHealthStatusType {
	for _, status := range severities {
		if slices.ContainsFunc(all, func(c corev1.VolumeHealthCondition) bool { return c.Status == status }) {
			return status
		}
	}
	return ""
}

// Text returns the conditions as one line, the worst first, cut to the length of an event's message.
func Text(all Conditions) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b corev1.VolumeHealthCondition) int {
		return cmp.Compare(slices.Index(severities, a.Status), slices.Index(severities, b.Status))
	})
	var parts []string
	for _, c := range all {
		part := string(c.Status) + " (" + c.Reason + ")"
		if c.Message != "" {
			part += ": " + c.Message
		}
		parts = append(parts, part)
	}
	return cut(strings.Join(parts, "; "), mostEvent)
}

// mostEvent is below the 1024 bytes of an event's message, for the words around the conditions.
const mostEvent = 800

// isSame reports whether two lists of conditions are stored alike, with their messages (HM-44).
func isSame(a, b Conditions) bool { return slices.Equal(sorted(a), sorted(b)) }

// isSameSet reports whether two lists have the same statuses and reasons. Messages may differ.
func isSameSet(a, b Conditions) bool { return identity(a) == identity(b) }

// identity returns the statuses and reasons of the conditions as a text.
func identity(all Conditions) string {
	var parts []string
	for _, c := range sorted(all) {
		parts = append(parts, string(c.Status)+"/"+c.Reason)
	}
	return strings.Join(parts, " ")
}
