package backend

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// MetadataFormat is in every metadata file of a volume, snapshot or group. It is raised when another
// program would misread the file.
const MetadataFormat = 1

// WriteJSON writes a file that an administrator can read; see [durable.WriteFile].
func WriteJSON(path, tempDir string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, tempDir, append(text, '\n'))
}

// ReadJSON reads a file of [WriteJSON].
func ReadJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// CheckOwner finds a metadata file of another format, and one that was copied here from elsewhere: its
// name leads to another id.
func CheckOwner(id ID, format int, name string) error {
	if format != MetadataFormat {
		return fmt.Errorf("format %d, this program reads format %d", format, MetadataFormat)
	}
	if IDOf(name) != id {
		return fmt.Errorf("it describes another one, named %.128q", name)
	}
	return nil
}

// Damaged is the error for a volume, snapshot or group whose file cannot be used.
func Damaged(what string, id ID, file string, cause error) error {
	return fault.Internal.Errorf("%s %q is damaged: %w; restore its %s or delete it", what, id, cause, file)
}
