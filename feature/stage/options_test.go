package stage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/cli/option"
)

// The options, and the words of other launchers, name files.
func TestFilesOnTheLine(t *testing.T) {
	for _, test := range []struct {
		args  string
		files []string
		err   string
	}{
		{"-n 2 a", nil, ""},
		{"--bcast -n 2 a", []string{"a"}, ""},
		{"-preload-binary -n 2 /bin/sh : -n 1 b", []string{"/bin/sh", "b"}, ""},
		{"--preload-files a,b ./app", []string{"a", "b"}, ""},
		{"--stage a --stage=b -n 2 a", []string{"a", "b"}, ""},
		{"-n 1 a : --stage b -n 1 b", []string{"b"}, ""},
		{"--stage c --preload-files a,b --stage-program ./app", []string{"c", "a", "b", "./app"}, ""},
		{"--stage", nil, "--stage needs a value"},
		{"--bcast=/tmp/a ./app", nil, "--bcast does not accept a value"},
	} {
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(test.args), option.Sources{Environ: []string{}, Read: func(string) (string, error) { return "", nil }})
		if test.err != "" || err != nil {
			if !strings.HasPrefix(fmt.Sprint(err), test.err) || test.err == "" {
				t.Errorf("%s: %v, want %q", test.args, err, test.err)
			}
			continue
		}
		if got := fileNames(line, "/none", ""); !slices.Equal(got, test.files) {
			t.Errorf("%s: %q, want %q", test.args, got, test.files)
		}
	}
}
