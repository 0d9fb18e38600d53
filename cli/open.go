package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remshell/hostlist"
)

// This file refuses code that everybody could have written (TRUST-27): a cluster file, and a
// host file that says which program runs on a host or what is in its environment. What a
// group may write is no fault, and names of hosts are data wherever they are.

// trusted refuses what entries of a host file say that everybody can write.
func trusted(entries []hostlist.Entry) error {
	looked := make(map[string]bool) // files that are fine
	for _, e := range entries {
		key := ""
		switch {
		case e.Line == 0 || looked[e.File]:
		case e.Attrs["path"] != "":
			key = "path="
		case len(e.Env) > 0:
			key = "env="
		}
		if key == "" {
			continue
		}
		if openToAll(e.File, 0) {
			return fmt.Errorf("%s can be written by everybody; %s in it is not used", e.File, key)
		}
		looked[e.File] = true
	}
	return nil
}

// maxLinks is how many links in a row are followed, as by the kernel.
const maxLinks = 40

// openToAll reports whether everybody can write to a file, or to a folder above it, or what
// a link on the way leads to, and so put another file in its place. In a folder with the
// sticky bit nobody can.
func openToAll(name string, links int) bool {
	at, err := filepath.Abs(name)
	if err != nil || links > maxLinks {
		return false
	}
	for {
		info, err := os.Lstat(at)
		switch {
		case err != nil: // a stream, as /dev/stdin may be
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(at)
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			if openToAll(target, links+1) {
				return true
			}
		case info.Mode().Perm()&0o002 != 0 && !(info.IsDir() && info.Mode()&fs.ModeSticky != 0):
			return true
		}
		above := filepath.Dir(at)
		if above == at {
			return false
		}
		at = above
	}
}
