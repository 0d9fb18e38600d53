package cli

import (
	"fmt"
	"io/fs"
	"os"
	"testing/fstest"
)

// withAccount returns the root file system of this machine, with an /etc/passwd in which our account is "me" with home
// as its home directory.
func withAccount(home string) fs.FS {
	line := fmt.Sprintf("me:x:%d:%d::%s:/bin/sh\n", os.Getuid(), os.Getgid(), home)
	return accountFS{os.DirFS("/"), fstest.MapFS{"etc/passwd": {Data: []byte(line)}}}
}

// An accountFS is a file system with another etc/passwd.
type accountFS struct{ disk, passwd fs.FS }

func (f accountFS) Open(name string) (fs.File, error) {
	if name == "etc/passwd" {
		return f.passwd.Open(name)
	}
	return f.disk.Open(name)
}
