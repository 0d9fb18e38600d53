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

// A probe finds the same GPUs in a captured tree on disk, through RootFS. It also checks for
// device files, which the tree does not have.
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
	found, withheld := usableGPUs(RootFS(root), []string{"CUDA_VISIBLE_DEVICES=0,2"})
	if text := gpu.FormatGPUs(gpu.OfBestVendor(found)); text != "0,2 (nvidia)" || len(found) != 3 || withheld != 1 {
		t.Errorf("%s of %d, %d withheld", text, len(found), withheld)
	}
	dgx := pintest.CapturedRoot(t, "../../testdata/nodes", "gpu-dgx-8")
	for _, file := range dgx { // device numbers that do not exist on any machine, even with GPUs
		file.Data = bytes.Replace(file.Data, []byte("Device Minor:"), []byte("Device Minor: none"), 1)
	}
	if found, withheld := usableGPUs(dgx, nil); found != nil || withheld != 8 {
		t.Errorf("without device files: %v, %d withheld", found, withheld)
	}
}
