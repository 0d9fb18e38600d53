package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// A --ckpt-done file of another user in a directory such as /tmp does not count as a checkpoint, and is rejected when
// a job starts.
func TestAFileOfAnotherUserIsNoCheckpoint(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "sticky")
	file, began := filepath.Join(folder, "done"), time.Now().Add(-time.Second) // the file's time may lag by a tick
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, os.ModeSticky|0o777), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	begin := func() error { return prepareFiles(job.CheckpointPolicy{DoneFile: file}) }
	if err := begin(); !(localRunner{}).isWritten(file, began) || err != nil {
		t.Errorf("our own does not count: %v", err)
	}
	if os.Lchown(file, 12345, 12345) != nil {
		t.Skip("only root gives files away")
	}
	if err := begin(); (localRunner{}).isWritten(file, began) || err == nil || !strings.HasPrefix(err.Error(), "--ckpt-done: "+file+" belongs to uid 12345") {
		t.Errorf("another user's counts: %v", err)
	}
}
