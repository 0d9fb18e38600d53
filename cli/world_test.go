package cli

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A user named neither by the environment nor by /etc/passwd is looked up as id does.
func TestNameOfAUserWithoutVariables(t *testing.T) {
	output, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	number := strconv.Itoa(os.Getuid())
	passwd := fstest.MapFS{"etc/passwd": {Data: []byte("filed:x:" + number + ":0::/:/bin/sh\n")}}
	for _, test := range []struct {
		name    string
		environ []string
		files   fstest.MapFS
		path    string
		want    string
	}{
		{"USER", []string{"USER=me", "LOGNAME=other"}, passwd, "", "me"},
		{"LOGNAME", []string{"LOGNAME=other"}, passwd, "", "other"},
		{"the file", nil, passwd, "", "filed"},
		{"getent", nil, fstest.MapFS{}, os.Getenv("PATH"), strings.TrimSpace(string(output))},
	} {
		t.Setenv("PATH", test.path)
		if got := userName(System{Environ: test.environ, FS: test.files}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
