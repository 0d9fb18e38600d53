package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/cli/option"
)

// The report of --doctor ends with the command line to run next.
func TestNextCommand(t *testing.T) {
	for _, test := range []struct {
		args   string
		failed bool
		want   string
	}{
		{"--doctor", false, "mpiexec --selftest"},
		{"--doctor n1 n2", false, "mpiexec --selftest n1 n2"},
		{"--doctor --json --accept-new-host-keys n[1-2],n3", false, "mpiexec --accept-new-host-keys --selftest 'n[1-2],n3'"},
		{"--doctor n1 n2", true, "mpiexec --doctor n1 n2"},
		{"--doctor -host n1,n2", false, "mpiexec -host n1,n2 --selftest"},
		{"--doctor -host n1,n2 -n 4", false, "mpiexec -host n1,n2 -n 4 --selftest"},
		{"-host n1,n2 --doctor -n 4 ./prog -v --json it's", false, `mpiexec -host n1,n2 -n 4 ./prog -v --json 'it'\''s'`},
		{"--doctor -host n1 --json=file ./prog --doctor", true, "mpiexec --doctor -host n1 --json=file ./prog --doctor"},
		{"--doctor -n 4 hostname", false, "mpiexec -n 4 hostname"},
		{"--doctor -ppn 2 -genv A 1 ./hello in", false, "mpiexec -ppn 2 -genv A 1 ./hello in"},
		{"--doctor --timeout 5 hostname", false, "mpiexec --timeout 5 hostname"},
		{"--doctor ./hello", false, "mpiexec ./hello"},
		{"--doctor --cluster FILE --connect-timeout 5 --ledger /d -v --exclude n3 n1", false, "mpiexec --cluster FILE --connect-timeout 5 --ledger /d -v --exclude n3 --selftest n1"},
		{"--doctor -configfile FILE", false, "mpiexec -configfile FILE"},
		{"--doctor -host n1 -n 1 ./a : -n 2 ./b c", false, "mpiexec -host n1 -n 1 ./a : -n 2 ./b c"},
	} {
		args := strings.Fields(test.args)
		config := func(string) (string, error) { return "-host n1 ./prog it", nil }
		line, err := option.Mpiexec(signalNumber).Parse(slices.Clone(args), option.Sources{Read: config})
		if err != nil {
			t.Fatal(err)
		}
		got := nextCommandFor(args, line, test.failed)
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
		if _, err = option.Mpiexec(signalNumber).Parse(strings.Fields(strings.ReplaceAll(got[strings.Index(got, "mpiexec ")+8:], "'", "")), option.Sources{Read: config}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// Words after --doctor are hosts, unless other options show that they are a program.
func TestWordsBehindDoctor(t *testing.T) {
	for args, want := range map[string]string{
		"--doctor n1 n2":               " on n1 n2",
		"--doctor --retries 1 n1":      " on n1",
		"--doctor -n 4 ./hello n1":     "./hello on",
		"--doctor -n 40 hostname":      "hostname on",
		"--doctor -wdir /tmp hostname": "hostname on",
		"--doctor /bin/hostname":       "/bin/hostname on",
		"--doctor -host n1 hostname":   "hostname on n1",
	} {
		line, err := option.Mpiexec(signalNumber).Parse(strings.Fields(args), option.Sources{})
		if err == nil {
			line, err = doctorHosts(line)
		}
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got := line.Apps[0].Program + " on"
		for _, host := range line.Apps[0].Host {
			for _, entry := range host {
				got += " " + entry.Host
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// The doctor checks whether jobs can append to the accounting file, and does not create it.
func TestUnappendable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := checkAppendable(file); err != nil {
		t.Errorf("a file that a job can make: %v", err)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("the file was made")
	}
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkAppendable(file); err != nil {
		t.Error(err)
	}
	for _, name := range []string{filepath.Join(dir, "none", "file"), dir, filepath.Join(file, "below"), "/dev/null"} {
		if err := checkAppendable(name); err == nil || appendLine(name, nil) == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
