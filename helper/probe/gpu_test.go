//go:build linux

package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"remshell/gpu"
	"remshell/test/pintest"
)

// What a probe reads of a tree is the same through the file system of this machine, where
// device files are asked for as well: those of the tree are not there.
func TestGPUsOnDisk(t *testing.T) {
	root := t.TempDir()
	for name, file := range pintest.CapturedRoot(t, "../../testdata/nodes", "gpu-mixed") {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, barred := usableGPUs(RootFS(root), []string{"CUDA_VISIBLE_DEVICES=0,2"})
	if text := gpu.FormatGPUs(gpu.OfBestVendor(found)); text != "0,2 (nvidia)" || len(found) != 3 || barred != 1 {
		t.Errorf("%s of %d, %d barred", text, len(found), barred)
	}
	dgx := pintest.CapturedRoot(t, "../../testdata/nodes", "gpu-dgx-8")
	for _, file := range dgx { // numbers that no machine has, also one with GPUs
		file.Data = bytes.Replace(file.Data, []byte("Device Minor:"), []byte("Device Minor: none"), 1)
	}
	if found, barred := usableGPUs(dgx, nil); found != nil || barred != 8 {
		t.Errorf("without device files: %v, %d barred", found, barred)
	}
}
