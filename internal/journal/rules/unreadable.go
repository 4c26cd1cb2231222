package intent

import (
	"errors"
	"fmt"

	"github.com/purser-csi/purser/internal/names"
)

// ErrNoRoom says that a text that cannot be read is too long to be kept beside the journal.
var ErrNoRoom = errors.New("it is too long to be kept beside the journal")

// Check returns why the journal in the annotations of a Lease cannot be read; nil if it can.
func Check(annotations map[string]string) error {
	if _, err := Decode(annotations[names.AnnIntents]); err != nil {
		return fmt.Errorf("annotation %s: %w", names.AnnIntents, err)
	}
	return nil
}

// SetAside moves the text of a journal that cannot be read into the annotation
// purser/intents-unreadable, behind what is there already. The text is never truncated: if it
// leaves no room for an entry, SetAside changes nothing and returns [ErrNoRoom].
func SetAside(annotations map[string]string) error {
	if Check(annotations) == nil {
		return nil
	}
	aside := annotations[names.AnnIntents]
	if before := annotations[names.AnnIntentsUnreadable]; before != "" {
		aside = before + "\n" + aside
	}
	if len(aside) > MaxText-maxEntry {
		return fmt.Errorf("%w: %d bytes, of %d", ErrNoRoom, len(aside), MaxText-maxEntry)
	}
	delete(annotations, names.AnnIntents)
	annotations[names.AnnIntentsUnreadable] = aside
	return nil
}

// Reserve says how many bytes of the Lease are taken by a text that could not be read, so that the
// entries have less room.
func (b *Book) Reserve(bytes int) { b.reserved = bytes }

// mayTake returns the size up to which the journal takes new entries.
func (b *Book) mayTake() int { return MaxText - b.reserved }

// FlagSkipUnreadable is the flag that goes on without a journal that cannot be read.
const FlagSkipUnreadable = "--purser-skip-unreadable-journal"

// SkipRisk says what may happen if a journal is skipped.
const SkipRisk = "the volume of a claim that was deleted, or got another class or node, while its request was " +
	"unresolved may stay in the storage system without a PersistentVolume; compare the volumes there with the " +
	"PersistentVolumes"
