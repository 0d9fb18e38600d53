package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that can run programs as the user counts only if not everybody can write it, or put
// another in its place (TRUST-27).
func TestCodeThatEverybodyCanWrite(t *testing.T) {
	const sticky = os.ModeSticky | 0o777
	const path, env, names = "n1 path=/opt/mpiexec\n", "n1 env=LD_PRELOAD:/tmp/x.so\n", "n1 slots=2\n"
	for _, test := range []struct {
		name         string
		text         string
		file, folder os.FileMode
		key          string // in the refusal; empty: it is used
	}{
		{"control", path, 0o644, 0o755, ""},
		{"for a group", path, 0o664, 0o775, ""},
		{"for everybody", path, 0o666, 0o755, "path="},
		{"for everybody, env=", env, 0o646, 0o755, "env="},
		{"for everybody, names alone", names, 0o666, 0o777, ""},
		{"folder for everybody", path, 0o644, 0o777, "path="},
		{"sticky folder", path, 0o644, sticky, ""},
		{"for everybody in a sticky folder", env, 0o666, sticky, "env="},
	} {
		t.Run(test.name, func(t *testing.T) {
			above := t.TempDir()
			folder := filepath.Join(above, "folder")
			file, link := filepath.Join(folder, "file"), filepath.Join(above, "link")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				os.Chmod(file, test.file)
				os.Chmod(folder, test.folder)
			}
			os.Symlink(file, link)
			write(test.text)
			including := filepath.Join(above, "including")
			if err := os.WriteFile(including, []byte("!include "+file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{file, link, including} {
				said, code := rehearsed("-hostfile", name)
				if name == including {
					name = file
				}
				refused := fmt.Sprintf("mpiexec: %s can be written by everybody; %s in it is not used\n", name, test.key)
				if test.key == "" && code != 0 || test.key != "" && (said != refused || code != 125) {
					t.Errorf("%s: code %d, %q", name, code, said)
				}
			}
			write("[[node]]\nname = \"n1\"\n")
			for _, name := range []string{file, link} {
				said, code := rehearsed("--cluster", name)
				refused := fmt.Sprintf("mpiexec: %s can be written by everybody; it is not used\n", name)
				if open := test.file&0o002 != 0 || test.folder == 0o777; open != (said == refused && code == 125) {
					t.Errorf("cluster file %s: code %d, %q", name, code, said)
				}
			}
		})
	}
}

// rehearsed runs --dry-run and returns what it said on standard error, and its exit code.
func rehearsed(args ...string) (string, int) {
	var out, errs bytes.Buffer
	args = append(append([]string{"--dry-run", "-n", "1"}, args...), "true")
	code := Main(context.Background(), args, System{In: strings.NewReader(""), Out: &out, Err: &errs, Getwd: os.Getwd, FS: os.DirFS("/"), Environ: []string{"HOME=/nowhere", "USER=me"}})
	return errs.String(), code
}

// What a host file says when it is read first holds, also if the request waits for days.
func TestHostFilesAreReadOnce(t *testing.T) {
	text := "a b"
	open := remembering(func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
	for range 2 {
		f, err := open("hosts")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(f); string(got) != "a b" {
			t.Errorf("it says %q", got)
		}
		text = "c"
	}
}
