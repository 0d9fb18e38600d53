//go:build linux

package pmidetect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"remshell/job"
)

// Programs made by "make programs", linked with the libraries of this machine.
func TestRealPrograms(t *testing.T) {
	const built = "../../build/programs/"
	for name, want := range map[string]job.PMIOffer{
		"/bin/sh": job.PMIOfferBoth, "/usr/bin/env": job.PMIOfferBoth, "/usr/bin/ldd": job.PMIOfferBoth,
		built + "hello.mpich4": job.PMIOfferPMI1, built + "hello": job.PMIOfferPMI1,
		built + "hello.openmpi": job.PMIOfferPMIx, built + "hello.openmpi5": job.PMIOfferPMIx, built + "pmix": job.PMIOfferPMIx,
	} {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // this MPI is not installed
		}
		if v := NewDetector(Disk{}).Detect(path, SearchOf(os.Environ(), "/")); v.Offer != want {
			t.Errorf("%s: %s, want %s", name, v, want)
		}
	}
}

// A FIFO with the name of a library is not opened.
func TestDiskOpensOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/pipe", dir + "/none"} {
		if f, err := (Disk{}).Open(path); err == nil {
			f.Close()
			t.Errorf("%s was opened", path)
		}
	}
}

func BenchmarkVerdict(b *testing.B) {
	for name, path := range map[string]string{"plain": "/bin/true", "openmpi": "../../build/programs/hello.openmpi", "mpich": "../../build/programs/hello.mpich4"} {
		b.Run("cold/"+name, func(b *testing.B) {
			for b.Loop() {
				NewDetector(Disk{}).Detect(path, Search{Dir: "/"})
			}
		})
		b.Run("cached/"+name, func(b *testing.B) {
			j := NewDetector(Disk{})
			for b.Loop() {
				j.Detect(path, Search{Dir: "/"})
			}
		})
	}
}
