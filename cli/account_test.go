package cli

import (
	"fmt"
	"io/fs"
	"os"
	"testing/fstest"
)

// withAccount is the disk, with an /etc/passwd in which our account is "me" and has a home of the test.
func withAccount(home string) fs.FS {
	line := fmt.Sprintf("me:x:%d:%d::%s:/bin/sh\n", os.Getuid(), os.Getgid(), home)
	return accountFS{os.DirFS("/"), fstest.MapFS{"etc/passwd": {Data: []byte(line)}}}
}

type accountFS struct{ disk, passwd fs.FS }

func (f accountFS) Open(name string) (fs.File, error) {
	if name == "etc/passwd" {
		return f.passwd.Open(name)
	}
	return f.disk.Open(name)
}
