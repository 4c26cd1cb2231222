package process

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
)

// TerminationLog is the file from which a kubelet copies the reason of an exit into the status of the
// pod. In a container of a pod it exists.
const TerminationLog = "/dev/termination-log"

// WriteTerminationMessage writes the reason of the exit to a file, if that exists.
func WriteTerminationMessage(log logr.Logger, path, reason string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		_, err = fmt.Fprintln(file, reason)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		log.Error(err, "cannot write why the process ends", "file", path)
	}
}
