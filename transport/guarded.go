package transport

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckCache says why this program, which runs from a cache, could be another one than we have
// put there; nil: it could not, or it is in no cache (TRUST-27). The script looks before it
// runs it, and the helper at itself once it runs.
func (s HelperBinary) CheckCache() error {
	folder := filepath.Dir(s.Path)
	if filepath.Base(folder) != s.Build {
		return nil
	}
	for _, name := range []string{s.Path, folder, filepath.Dir(folder)} {
		info, err := os.Lstat(name)
		if err != nil {
			return nil // it was taken away meanwhile: who could, owned it
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&0o022 != 0 || ok && int(st.Uid) != os.Getuid() {
			return fmt.Errorf("%s can be changed by others; it is not used", name)
		}
	}
	return nil
}
