//go:build linux

package diagnose

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"testing/fstest"

	"remshell/job"
)

// The lowest limit of a group and of those above it is effective, in both versions of cgroups.
func TestGroup(t *testing.T) {
	two := fstest.MapFS{
		"proc/self/cgroup":                           {Data: []byte("0::/user/me\n")},
		"sys/fs/cgroup/user/me/memory.max":           {Data: []byte("max\n")},
		"sys/fs/cgroup/user/memory.max":              {Data: []byte("1000\n")},
		"sys/fs/cgroup/user/me/pids.max":             {Data: []byte("50\n")},
		"sys/fs/cgroup/user/pids.max":                {Data: []byte("60\n")},
		"sys/fs/cgroup/user/someone/else/memory.max": {Data: []byte("1\n")},
	}
	one := fstest.MapFS{
		"proc/self/cgroup": {Data: []byte("5:pids:/a\n4:cpu,memory:/a/b\nrubbish\n")},
		"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": {Data: []byte("9223372036854771712\n")},
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   {Data: []byte("2000\n")},
		"sys/fs/cgroup/pids/a/pids.max":                  {Data: []byte("max\n")},
	}
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want job.CgroupLimits
	}{
		{"version 2", two, job.CgroupLimits{Memory: 1000, Processes: 50}},
		{"version 1", one, job.CgroupLimits{Memory: 2000, Processes: -1}},
		{"none", fstest.MapFS{}, job.CgroupLimits{Memory: -1, Processes: -1}},
	} {
		if got := cgroupLimits(c.root); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Titles of OpenSSH 8.2, 9.2 and 10.0.
func TestListenerTitle(t *testing.T) {
	for _, c := range []struct {
		title    string
		startups int
		config   string
	}{
		{"sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", 10, "/etc/ssh/sshd_config"},
		{"sshd: /usr/sbin/sshd -f /run/x/sshd_config -E /log [listener] 3 of 1-1 startups", 1, "/run/x/sshd_config"},
		{"sshd: /usr/sbin/sshd -D [listener] 1 of 30-300 startups", 30, "/etc/ssh/sshd_config"},
		{"sshd: root@notty", 0, "/etc/ssh/sshd_config"},
		{"sshd: [listener] 1 in 5", 0, "/etc/ssh/sshd_config"},
	} {
		if n, file := maxStartupsOf(c.title), sshdConfigPath(c.title); n != c.startups || file != c.config {
			t.Errorf("%q: %d %s, want %d %s", c.title, n, file, c.startups, c.config)
		}
	}
}

// The first value wins. Included files count at the line that includes them, and lines after Match
// are ignored.
func TestSettings(t *testing.T) {
	root := fstest.MapFS{
		"etc/ssh/sshd_config":            {Data: []byte("# MaxSessions 1\nInclude /etc/ssh/sshd_config.d/*.conf\nMaxSessions 4\nMaxSessions 5\nPort 22\nMatch User x\nMaxStartups 3\n")},
		"etc/ssh/sshd_config.d/a.conf":   {Data: []byte("maxsessions 2\n")},
		"etc/ssh/sshd_config.d/b.conf":   {Data: []byte("Port 23\nMaxSessions 3\n")},
		"etc/ssh/sshd_config.d/c.disabl": {Data: []byte("UsePAM no\n")},
	}
	want := map[string]string{"#": "MaxSessions", "maxsessions": "2", "port": "23"}
	if got := readSSHDConfig(root, "/etc/ssh/sshd_config"); !maps.Equal(got, want) {
		t.Errorf("settings %v, want %v", got, want)
	}
}

// The C library finds names that are in no file and on no name server.
func TestLookupHostUsesCLibrary(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = 'ahosts pi1.invalid' ] && echo '10.0.0.1 STREAM pi1' && echo '10.0.0.1 DGRAM'\n"
	if err := os.WriteFile(dir+"/getent", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for host, want := range map[string]string{"pi1.invalid": "[10.0.0.1]", "pi2.invalid": "[]"} {
		if got := fmt.Sprint(lookupHost(t.Context(), host)); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// Faults of the home directory and the account of a login are reported, with a remedy.
func TestHomeAndAccount(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for home, want := range map[string]string{
		t.TempDir(): "", "": "HOME is not set", "/no/where": "cannot use the home directory /no/where: no such file or directory",
		file: "the home directory " + file + " is not a directory", "/proc": "cannot write to the home directory /proc: permission denied",
	} {
		environ := []string{"HOME=" + home}
		if home == "" {
			environ = nil
		}
		if home == "/proc" && os.Geteuid() == 0 {
			want = "" // root may write
		}
		if d := homeDefect(environ); d.Text != want || (d.Remedy == "") != (want == "") {
			t.Errorf("%s: %+v, want %q", home, d, want)
		}
	}
	if d := accountDefect(t.Context()); d.Text != "" {
		t.Errorf("%+v", d)
	}
}

// A directory of claims in which no file can be created is reported.
func TestClaimDirSpace(t *testing.T) {
	if s := claimDirSpace(t.TempDir()); s.Err != "" || s.Total == 0 {
		t.Errorf("%+v", s)
	}
	if s := claimDirSpace("/no/where"); s.Err != "no such file or directory" {
		t.Errorf("%+v", s)
	}
	if s := claimDirSpace("/sys"); s.Err == "" { // it is mounted read-only, or belongs to another user
		t.Skip("/sys can be written")
	}
}

// The limit reported is the one that ranks get, not the one that Go raised for itself.
func TestOpenFilesOfChildren(t *testing.T) {
	if n := openFilesLimit(t.Context(), -5); n == -5 {
		t.Errorf("sh was not asked (PATH %s)", os.Getenv("PATH"))
	}
}
