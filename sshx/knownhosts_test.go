package sshx

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
)

// knownFrom indexes text, in which KEY1, KEY2 ... stand for "ssh-ed25519 AAAA...", and RSA for a key
// of another type.
func knownFrom(text string, keys []ssh.PublicKey, rsa ssh.PublicKey) []*knownFile {
	for i, k := range keys {
		text = strings.ReplaceAll(text, fmt.Sprintf("KEY%d", i+1), k.Type()+" "+keyText(k))
	}
	text = strings.ReplaceAll(text, "RSA", rsa.Type()+" "+keyText(rsa))
	return []*knownFile{newKnownFile("known", text)}
}

func TestJudge(t *testing.T) {
	var keys []ssh.PublicKey
	for range 3 {
		keys = append(keys, sshtest.NewKey().PublicKey())
	}
	rsa := signer(t, newRSA(t)).PublicKey()
	tests := []struct {
		name, text string
		host       string // as in known_hosts
		fallback   string
		key        int // index of the server's key; 0: the rsa key
		want       Kind
	}{
		{"plain", "n1 KEY1", "n1", "", 1, ""},
		{"list of names", "n0,n1,10.0.0.1 KEY1 comment", "10.0.0.1", "", 1, ""},
		{"upper case in the file", "Node1 KEY1", "node1", "", 1, ""},
		{"other name", "n2 KEY1", "n1", "", 1, KindUnknownKey},
		{"no prefix match", "n1.example.org KEY1", "n1", "", 1, KindUnknownKey},
		{"changed", "n1 KEY1", "n1", "", 2, KindChangedKey},
		{"two keys of one type", "n1 KEY1\nn1 KEY2", "n1", "", 2, ""},
		{"known by another type only", "n1 RSA", "n1", "", 1, KindChangedKey},
		{"known by both types", "n1 RSA\nn1 KEY1", "n1", "", 0, ""},
		{"wildcard", "*.example.org,n? KEY1", "n7", "", 1, ""},
		{"negated", "n*,!n7 KEY1", "n7", "", 1, KindUnknownKey},
		{"port", "[n1]:2222 KEY1", "[n1]:2222", "n1", 1, ""},
		{"another port", "[n1]:2222 KEY1", "[n1]:2223", "n1", 1, KindUnknownKey},
		{"known without port", "n1 KEY1", "[n1]:2222", "n1", 1, ""},
		{"known without port, differs", "n1 KEY1", "[n1]:2222", "n1", 2, KindUnknownKey},
		{"with port differs, without fits", "n1 KEY2\n[n1]:2222 KEY1", "[n1]:2222", "n1", 2, KindChangedKey},
		{"hashed", newHashedName("n1") + " KEY1", "n1", "", 1, ""},
		{"hashed, changed", newHashedName("n1") + " KEY1", "n1", "", 2, KindChangedKey},
		{"open and hashed", "n1 KEY2\n" + newHashedName("n1") + " KEY1", "n1", "", 1, ""},
		{"revoked", "n1 KEY1\n@revoked n1 KEY1", "n1", "", 1, KindRevokedKey},
		{"revoked for others", "n1 KEY1\n@revoked n2 KEY1", "n1", "", 1, ""},
		{"revoked, hashed", "n1 KEY2\n@revoked " + newHashedName("n1") + " KEY1", "n1", "", 1, KindRevokedKey},
		{"an authority is no host key", "@cert-authority n1 KEY1", "n1", "", 1, KindUnknownKey},
		{"rubbish around it", "# n1 KEY2\n\n@what n1 KEY2\nn1\nn1 ssh-ed25519\n|1|x|y KEY2\n  n1 KEY1\r\nn1 1024 35 12345", "n1", "", 1, ""},
	}
	for _, tt := range tests {
		files := knownFrom(tt.text, keys, rsa)
		key := rsa
		if tt.key > 0 {
			key = keys[tt.key-1]
		}
		var fallback *knownKeys
		if k := lookUpKnown(files, tt.host); tt.fallback != "" && !k.hasMarker("") {
			fallback = lookUpKnown(files, tt.fallback)
		}
		if v := judgeHostKey(lookUpKnown(files, tt.host), fallback, "n1", key, time.Now()); v.kind != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, v.kind, tt.want)
		}
	}
}

// The vector is the output of ssh-keygen -H for "example.org".
func TestHashName(t *testing.T) {
	for _, word := range []string{"|1|ZddwipmAFaf0WWA20OoRh/1R6Ds=|Gr4OB1Vs86uaaBCpzRU303oJ264=", newHashedName("example.org")} {
		h := newHashedLine(word, knownLine{})
		if h == nil || !h.matches("example.org") || h.matches("example.com") {
			t.Errorf("%s: not understood, example.org not found, or another name found", word)
		}
	}
}

func TestAcceptNew(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	p.write(".ssh/known_hosts", "other ssh-ed25519 AAAA") // a last line without line end
	s := p.unknownServer(sshtest.Options{HostKeys: []ssh.Signer{sshtest.NewKey(), signer(t, newRSA(t))}})
	target := p.target(s.Addr())
	target.Strict = "accept-new"
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c, err := p.d.Dial(context.Background(), target)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	first, _, _ := strings.Cut(s.KnownHosts(), "\n")
	if got, want := p.read(".ssh/known_hosts"), "other ssh-ed25519 AAAA\n"+first+"\n"; got != want {
		t.Errorf("known_hosts is\n%s\nwant\n%s", got, want)
	}
	t.Run("without directory", func(t *testing.T) {
		target := target
		target.UserKnownHosts = []string{p.home + "/new/dir/known_hosts"}
		target.Strict = ""
		p := &testHome{t: t, home: p.home, d: &Dialer{AcceptNew: true}}
		p.dial(target)
		if got := p.read("new/dir/known_hosts"); got != first+"\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("not where a changed key is", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{AcceptNew: true}}
		line := fmt.Sprintf("[127.0.0.1]:%d ssh-ed25519 %s\n", s.Port(), keyText(p.key0()))
		p.write(".ssh/known_hosts", line)
		p.want(p.refusal(target), KindChangedKey, "has changed", "")
		if got := p.read(".ssh/known_hosts"); got != line {
			t.Errorf("known_hosts was touched: %q", got)
		}
	})
	t.Run("no", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{}}
		target := target
		target.Strict, target.UserKnownHosts = "no", []string{"/dev/null"}
		p.dial(target)
		target.UserKnownHosts = []string{p.home + "/.ssh/known_hosts"} // the file has changed
		p.dial(target)
	})
	t.Run("loopback", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{}}
		target := target
		target.Strict, target.UserKnownHosts, target.TrustLoopback = "yes", nil, true
		p.dial(target)
	})
}

func TestHostKeyAlias(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.unknownServer(sshtest.Options{})
	p.write(".ssh/known_hosts", "farm ssh-ed25519 "+keyText(s.HostKey())+"\n")
	target := p.target(s.Addr())
	target.HostKeyAlias = "Farm"
	p.dial(target)
}

func TestSeveralKnownHostsFiles(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.unknownServer(sshtest.Options{})
	target := p.target(s.Addr())
	target.UserKnownHosts = []string{p.home + "/none", p.write("second", "other ssh-ed25519 AAAA\n")}
	target.GlobalKnownHosts = []string{p.write("global", s.KnownHosts())}
	p.dial(target)
	if _, err := os.Stat(p.home + "/none"); err == nil {
		t.Error("a file was made")
	}
}

// manyLines returns a known_hosts file with n hosts, hashed or not.
func manyLines(n int, hashed bool) string {
	key := sshtest.NewKey().PublicKey()
	var b strings.Builder
	for i := range n {
		name := fmt.Sprintf("node%05d", i)
		if hashed {
			name = newHashedName(name)
		}
		fmt.Fprintf(&b, "%s %s %s\n", name, key.Type(), keyText(key))
	}
	return b.String()
}

func BenchmarkKnownHosts(b *testing.B) {
	for _, hashed := range []bool{false, true} {
		text := manyLines(10000, hashed)
		b.Run(fmt.Sprintf("parse/hashed=%v", hashed), func(b *testing.B) {
			for b.Loop() {
				newKnownFile("", text)
			}
		})
		f := newKnownFile("", text)
		b.Run(fmt.Sprintf("lookup/hashed=%v", hashed), func(b *testing.B) {
			for b.Loop() {
				if !lookUpKnown([]*knownFile{f}, "node09999").hasMarker("") {
					b.Fatal("not found")
				}
			}
		})
	}
}
