package sshx

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResolveAsOpenSSH compares Resolve with ssh -G for the same files. Both run in their own network
// namespace, with a name server that knows the names of zone, because ssh -G looks names up.
func TestResolveAsOpenSSH(t *testing.T) {
	ssh := tool(t, "ssh")
	if !inside(t) {
		return
	}
	account, err := user.Current()
	check(t, err)
	host, err := os.Hostname()
	check(t, err)
	me := User{Name: account.Username, Home: account.HomeDir, UID: os.Getuid(), Host: host, Getenv: os.Getenv}
	local := NewLocalMachine("/bin/sh", 4)
	defer local.Close()
	files, _ := filepath.Glob("testdata/config/*.conf")
	if len(files) < 17 {
		t.Fatalf("found %v only", files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.CopyFS(dir, os.DirFS("testdata/config")))
			data, err := os.ReadFile(file)
			check(t, err)
			text := strings.ReplaceAll(string(data), "DIR", dir)
			path := filepath.Join(dir, "config")
			check(t, os.WriteFile(path, []byte(text), 0o600))
			config, err := ReadConfig(path, "", me)
			check(t, err)
			first, _, _ := strings.Cut(text, "\n")
			for _, alias := range strings.Fields(strings.TrimPrefix(first, "# aliases:")) {
				// Resolve comes first: so it is clear that it did not run a command that must not run.
				got, err := config.Resolve(context.Background(), alias, me, local)
				check(t, err)
				out, err := exec.Command(ssh, "-G", "-F", path, alias).CombinedOutput()
				if err != nil {
					t.Fatalf("ssh -G %s: %v: %s", alias, err, out)
				}
				compare(t, alias, got, options(string(out)), me)
			}
		})
	}
}

// options parses the output of ssh -G: keyword and values.
func options(out string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[key] = append(m[key], value)
	}
	return m
}

func compare(t *testing.T, what string, got Target, want map[string][]string, me User) {
	t.Helper()
	yes := map[bool]string{true: "yes", false: "no"}
	strict := map[string]string{"yes": "true", "no": "false"}[got.Strict]
	if strict == "" {
		strict = got.Strict
	}
	ours := map[string]string{
		"hostname":                         got.HostName,
		"port":                             fmt.Sprint(got.Port),
		"user":                             got.User,
		"hostkeyalias":                     got.HostKeyAlias,
		"addressfamily":                    got.AddressFamily,
		"connectionattempts":               fmt.Sprint(got.Attempts),
		"serveralivecountmax":              fmt.Sprint(got.AliveCountMax),
		"serveraliveinterval":              fmt.Sprint(int(got.AliveInterval / time.Second)),
		"identitiesonly":                   yes[got.IdentitiesOnly],
		"hashknownhosts":                   yes[got.HashKnownHosts],
		"nohostauthenticationforlocalhost": yes[got.TrustLoopback],
		"stricthostkeychecking":            strict,
		"proxycommand":                     got.ProxyCommand,
		"bindaddress":                      got.BindAddress,
		"userknownhostsfile":               strings.Join(got.UserKnownHosts, " "),
		"globalknownhostsfile":             strings.Join(got.GlobalKnownHosts, " "),
		"revokedhostkeys":                  strings.Join(got.RevokedKeys, " "),
		"knownhostscommand":                strings.ReplaceAll(strings.Join(got.KnownHostsCommand.Words, " "), laterToken, "%"),
	}
	if got.ConnectTimeout > 0 {
		ours["connecttimeout"] = fmt.Sprint(int(got.ConnectTimeout / time.Second))
	}
	if want["identityagent"] != nil {
		ours["identityagent"] = got.Agent
	}
	for key, v := range ours {
		if theirs := strings.Join(homes(strings.Fields(strings.Join(want[key], " ")), me), " "); v != theirs {
			t.Errorf("%s: %s %q, ssh says %q", what, key, v, theirs)
		}
	}
	for key, list := range map[string][]string{"identityfile": got.Identities, "certificatefile": got.Certificates} {
		var theirs []string
		for _, v := range homes(want[key], me) {
			theirs = append(theirs, strings.NewReplacer("%r", got.User, "%u", me.Name, "%n", got.Alias, "%h", got.HostName).Replace(v))
		}
		if list != nil && !slices.Equal(list, theirs) {
			t.Errorf("%s: %s %q, ssh says %q", what, key, list, theirs)
		}
	}
	if theirs := strings.Join(want["proxyjump"], ""); (theirs != "" && theirs != "none") != (len(got.Via) > 0) {
		t.Errorf("%s: jumps %v, ssh says %q", what, got.Via, theirs)
	}
}

// homes replaces ~ and ~NAME by home directories, since ssh -G keeps them in most values.
func homes(paths []string, me User) (list []string) {
	for _, path := range paths {
		if path == "none" {
			continue
		}
		if strings.HasPrefix(path, "~") {
			name, rest, _ := strings.Cut(path[1:], "/")
			home := me.Home
			if u, err := user.Lookup(name); err == nil {
				home = u.HomeDir
			}
			path = filepath.Join(home, rest)
		}
		list = append(list, path)
	}
	return list
}

// insideKey is the variable that tells the test program that it runs in its own network namespace.
const insideKey = "SSHX_TEST_INSIDE"

// zone is the data of the name server: a name's addresses, or the name it is an alias of.
var zone = map[string]string{
	"n1.corp.example":     "10.0.0.1",
	"www.corp.example":    "web7.corp.example",
	"web7.corp.example":   "10.0.0.7",
	"alias.corp.example":  "host.other.example",
	"host.other.example":  "10.0.1.1",
	"n2.second.example":   "10.0.2.2",
	"v6only.corp.example": "fd00::6",
	"a.b.corp.example":    "10.0.0.10",
	"bare.search.example": "web7.corp.example",
}

// inside runs the test again in its own network namespace with a name server, and returns true there.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideKey) == "" {
		words := []string{tool(t, "unshare"), "--mount", "--net"}
		if os.Getuid() != 0 {
			words = append(words, "--map-root-user")
		}
		if out, err := exec.Command(words[0], append(words[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("needs a network of its own, and so root or user namespaces: %v: %s", err, out)
		}
		cmd := exec.Command(words[0], append(words[1:], os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
		cmd.Env = append(os.Environ(), insideKey+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+"/")) {
			t.Errorf("%v\n%s", err, out)
		}
		return false
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hosts":         "127.0.0.1 localhost\n10.0.9.9 local.corp.example local\n10.0.9.8 bare\n",
		"resolv.conf":   "nameserver 127.0.0.1\nsearch search.example\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		run(t, "mount", "--bind", filepath.Join(dir, name), "/etc/"+name)
	}
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "address", "add", "10.0.0.9/8", "dev", "lo") // getent finds only addresses of families that the machine has
	run(t, "ip", "address", "add", "fd00::9/64", "dev", "lo", "nodad")
	conn, err := net.ListenPacket("udp", "127.0.0.1:53")
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		var question [512]byte
		for {
			n, peer, err := conn.ReadFrom(question[:])
			if err != nil {
				return
			}
			conn.WriteTo(nameServer(question[:n]), peer)
		}
	}()
	return true
}

// nameServer replies to a query from zone (RFC 1035, 4.1).
func nameServer(question []byte) []byte {
	at, name := 12, ""
	for question[at] != 0 {
		n := int(question[at])
		name += "." + string(question[at+1:at+1+n])
		at += 1 + n
	}
	name = strings.ToLower(strings.TrimPrefix(name, "."))
	kind := binary.BigEndian.Uint16(question[at+1:])
	answer := slices.Concat(question[:2], []byte{0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:at+5])
	record := func(name string, kind uint16, data []byte) {
		answer = append(answer, encodeName(name)...)
		answer = binary.BigEndian.AppendUint16(answer, kind)
		answer = append(answer, 0, 1, 0, 0, 0, 60)
		answer = append(binary.BigEndian.AppendUint16(answer, uint16(len(data))), data...)
		answer[7]++
	}
	const a, cname, aaaa = 1, 5, 28
	value, known := zone[name]
	if !known {
		answer[3] = 3 // NXDOMAIN
		return answer
	}
	if net.ParseIP(value) == nil {
		record(name, cname, encodeName(value))
		name, value = value, zone[value]
	}
	switch ip := net.ParseIP(value); {
	case kind == a && ip.To4() != nil:
		record(name, a, ip.To4())
	case kind == aaaa && ip.To4() == nil:
		record(name, aaaa, ip)
	}
	return answer
}

func encodeName(name string) (b []byte) {
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}
