package sshx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// badOption matches ssh's message: the line at which it stops, and the keyword.
var badOption = regexp.MustCompile(`(?m)^\S+: line (\d+): Bad configuration option: (\S+?)\r?$`)

// ssh stops at a line with an unknown keyword, unless an earlier IgnoreUnknown names it. sshx stops if
// the keyword is close to a known one. Otherwise it ignores and reports the line. These are the same
// lines as for ssh.
func TestUnknownKeywordsAsOpenSSH(t *testing.T) {
	ssh := tool(t, "ssh")
	for _, test := range []struct {
		name, text string
		stops      string // part of our error; empty: no error
		passed     []int  // ignored lines
	}{
		{"none", "Host h\n Port 2\n", "", nil},
		{"a typo", "Host h\n IdentiyFile ~/x\n", ":2: IdentiyFile: there is no such keyword (did you mean IdentityFile?)", nil},
		{"a typo for another host", "Host other\n StrictHostKeyCheking no\n", ":2: StrictHostKeyCheking: there is no such keyword (did you mean StrictHostKeyChecking?)", nil},
		{"a typo below Match", "Match user nobody-else\n Protcol 2\n", ":2: Protcol: there is no such keyword (did you mean Protocol?)", nil},
		{"a typo in a file for another host", "Host other\n Include DIR/typo\n", "typo:1: Usr: there is no such keyword (did you mean User?)", nil},
		{"a word of a newer ssh", "Host h\n QuantumLevel 3\nHost other\n QuantumLevel 4\n", "", []int{2, 4}},
		{"IgnoreUnknown", "IgnoreUnknown foo,quantum*\nHost h\n QuantumLevel 3\n Foo 1\n", "", nil},
		{"IgnoreUnknown, in other letters", "IgnoreUnknown QUANTUM*\nHost h\n quantumlevel 3\n", "", nil},
		{"IgnoreUnknown of a typo", "IgnoreUnknown IdentiyFile\nIdentiyFile x\n", "", nil},
		{"IgnoreUnknown but not this", "IgnoreUnknown !quantumlevel,*\nHost h\n QuantumLevel 3\n", "", []int{3}},
		{"IgnoreUnknown behind it", "QuantumLevel 3\nIgnoreUnknown *\n", "", []int{1}},
		{"IgnoreUnknown for another host", "Host other\n IgnoreUnknown *\n QuantumLevel 3\nHost h\n QuantumLevel 3\n", "", []int{3, 5}},
		{"two of IgnoreUnknown: the first counts", "IgnoreUnknown foo\nIgnoreUnknown quantum*\nQuantumLevel 3\n", "", []int{3}},
		{"what ssh has given up", "Protocol 1\nCipher blowfish\nUseRoaming no\nRSAAuthentication yes\nCompressionLevel 9\n", "", nil},
		{"a second pass", "CanonicalizeHostname no\nMatch final\n Port 3\nHost *\n QuantumLevel 3\n", "", []int{5}},
	} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "typo"), []byte("Usr me\n"), 0o600))
		path := filepath.Join(dir, "config")
		check(t, os.WriteFile(path, []byte(strings.ReplaceAll(test.text, "DIR", dir)), 0o600))
		me := User{Name: "me", Home: dir, UID: os.Getuid()}
		config, err := ReadConfig(path, "", me)
		check(t, err)
		target, err := config.Resolve(context.Background(), "h", me, NewLocalMachine("/bin/sh", 1))
		var ours []string
		for _, u := range target.Unknown {
			ours = append(ours, strconv.Itoa(u.Line))
		}
		var wrong *ConfigError
		switch {
		case test.stops == "" && err != nil, test.stops != "" && (err == nil || !strings.HasSuffix(err.Error(), test.stops)):
			t.Errorf("%s: %v, want %q", test.name, err, test.stops)
			continue
		case errors.As(err, &wrong):
			ours = []string{strconv.Itoa(wrong.Line)}
		case fmt.Sprint(ours) != fmt.Sprint(test.passed):
			t.Errorf("%s: passed over %v, want %v", test.name, ours, test.passed)
		}
		out, _ := exec.Command(ssh, "-G", "-F", path, "h").CombinedOutput()
		var theirs []string
		for _, found := range badOption.FindAllStringSubmatch(string(out), -1) {
			theirs = append(theirs, found[1])
		}
		slices.Sort(theirs)
		if theirs = slices.Compact(theirs); !slices.Equal(ours, theirs) {
			t.Errorf("%s: we do not know lines %v, ssh lines %v: %s", test.name, ours, theirs, out)
		}
	}
}

// The known keywords are those of ssh, except for some that are newer than the installed ssh or from
// another system.
func TestKeywordsAreThoseOfOpenSSH(t *testing.T) {
	ssh := tool(t, "ssh")
	path := filepath.Join(t.TempDir(), "config")
	check(t, os.WriteFile(path, []byte(strings.Join(keywords, " x\n")+" x\nNoKeyword x\n"), 0o600))
	out, _ := exec.Command(ssh, "-G", "-F", path, "h").CombinedOutput()
	elsewhere := strings.Fields(`channeltimeout obscurekeystroketiming versionaddendum refuseconnection warnweakcrypto gssapiclientidentity
		gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns protocolkeepalives setuptimeout rsaminsize
		usekeychain nokeyword`)
	found := 0
	for _, bad := range badOption.FindAllStringSubmatch(string(out), -1) {
		if found++; !slices.Contains(elsewhere, bad[2]) {
			t.Errorf("ssh does not know %s", bad[2])
		}
	}
	if found == 0 {
		t.Errorf("ssh knows NoKeyword: %s", out)
	}
}

// A host that the configuration refuses is not connected to.
func TestRefuseConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check(t, os.WriteFile(path, []byte("Host h\n RefuseConnection \"use h2\"\n"), 0o600))
	me := User{Name: "me", UID: os.Getuid()}
	config, err := ReadConfig(path, "", me)
	check(t, err)
	if _, err = config.Resolve(context.Background(), "h", me, nil); err == nil || !strings.Contains(err.Error(), ":2: RefuseConnection: use h2") {
		t.Errorf("h: %v", err)
	}
	if _, err = config.Resolve(context.Background(), "h2", me, nil); err != nil {
		t.Errorf("h2: %v", err)
	}
}
