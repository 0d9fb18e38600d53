package transport

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckCache returns an error if this program runs from a cache directory in which other users could have
// replaced the program (rule TRUST-27). It returns nil if the program does not run from a cache directory.
func (s HelperBinary) CheckCache() error {
	dir := filepath.Dir(s.Path)
	if filepath.Base(dir) != s.Build {
		return nil
	}
	for _, name := range []string{s.Path, dir, filepath.Dir(dir)} {
		info, err := os.Lstat(name)
		if err != nil {
			return nil // it was removed meanwhile, which only its owner could do
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&0o022 != 0 || ok && int(st.Uid) != os.Getuid() {
			return fmt.Errorf("other users can change %s, so it is not used", name)
		}
	}
	return nil
}
