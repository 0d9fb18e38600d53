package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/cli/option"
)

// One option answers a shell's completion request, under each name of the program. Hosts come from the ssh files of
// the account, whatever HOME is.
func TestCompletionRequest(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config":      "Host compute1 compute2 *.example.org\nHost $(reboot) -oops\n",
		"known_hosts": "compute3,10.0.0.3 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGEfdYBvYSfkZSFlcxS0Pr+ZNDbfkZTV2R6uoaJDnkQJ\n|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-rsa AAAA\n",
	} {
		if err := os.WriteFile(filepath.Join(home, ".ssh", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ line, want string }{
		{"mpiexec --__complete -host comp", "words 0\ncompute1\t\ncompute2\t\ncompute3\t\n"},
		{"mpirun --__complete -host compute3,compute1", "words 0\ncompute3,compute1\t\n"},
		{"mpiexec.remshell --__complete --bind-to co", "words 0\ncore\t\n"},
		{"mpiexec --__complete -n 1 ./a x", "arguments 2\n"},
		{"mpijob --__complete ps comp", "words 0\ncompute1\t\ncompute2\t\ncompute3\t\n"},
		{"mpijob --__complete su", "words 0\nsuspend\tstop all ranks of a job\n"},
		{"aprun --__complete -n 2 -L", "words 0\n-L\tuse these hosts, in the order of their numbers: 3,7-12,node40\n"},
		{"aprun --__complete -l ho", "files 0\n"},
		{"aprun --__complete -n 2 ./a x", "arguments 2\n"},
		{"aprun --__complete -n 2 ./a : he", "program 0\n"},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), FrontEndArgs(strings.Fields(test.line)), System{In: strings.NewReader(""), Out: &out, Err: &errs, Getwd: os.Getwd, FS: withAccount(home), Environ: []string{"HOME=" + t.TempDir(), "USER=me"}})
		if code != 0 || out.String() != test.want || errs.Len() > 0 {
			t.Errorf("%s: exit %d: %q %s; want %q", test.line, code, out.String(), errs.String(), test.want)
		}
	}
	if text := option.CompletionScript("bash"); !strings.Contains(text, option.CompletionOption) || strings.Contains(text, "--hostfile") {
		t.Error("the script does not ask, or knows options itself")
	}
}
