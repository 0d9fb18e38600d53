package sshx

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A trial is a row of TRUST-21: the user's files, and the result. In the files, NAME is the server's
// name in known_hosts, and HASHED the same hashed. KEY is its key, and RSA a key that it does not
// have. CA and OLD are two authorities; OLD signs with SHA-1.
type trial struct {
	name    string
	cert    string // ssh-keygen options for the server's certificate; empty: none
	known   string
	revoked string // content of RevokedHostKeys; empty: no file
	config  string // lines of ssh_config
	want    Kind   // empty: connects
	says    string
}

const goodCert = "-s CA -h -n 127.0.0.1 -V -1d:+1d"

var trials = []trial{
	{"control: a known key", "", "NAME KEY", "", "", "", ""},
	{"control: a certificate", goodCert, "@cert-authority * CA", "", "", "", ""},
	{"control: others are revoked", goodCert, "@cert-authority * CA\n@revoked * RSA\n@revoked other KEY", "RSA", "", "", ""},

	{"revoked beside plain", "", "NAME KEY\n@revoked NAME KEY", "", "", KindRevokedKey, "the host key is revoked (~/.ssh/known_hosts:2)"},
	{"revoked before plain", "", "@revoked NAME KEY\nNAME KEY", "", "", KindRevokedKey, "(~/.ssh/known_hosts:1)"},
	{"hashed revoked beside plain", "", "NAME KEY\n@revoked HASHED KEY", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},
	{"hashed revoked beside hashed", "", "HASHED KEY\n@revoked HASHED KEY", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},
	{"revoked without port", "", "NAME KEY\n@revoked 127.0.0.1 KEY", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},
	{"authority revoked", goodCert, "@cert-authority * CA\n@revoked * CA", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},
	{"authority revoked, hashed", goodCert, "@cert-authority * CA\n@revoked HASHED CA", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},
	{"authority revoked, key known", goodCert, "@cert-authority * CA\nNAME KEY\n@revoked HASHED CA", "", "", KindRevokedKey, "(~/.ssh/known_hosts:3)"},
	{"key of a certificate revoked", goodCert, "@cert-authority * CA\n@revoked HASHED KEY", "", "", KindRevokedKey, "(~/.ssh/known_hosts:2)"},

	{"key in RevokedHostKeys", "", "NAME KEY", "# a comment\nKEY", "", KindRevokedKey, "the host key is revoked (~/revoked:2)"},
	{"authority in RevokedHostKeys", goodCert, "@cert-authority * CA", "RSA\nCA", "", KindRevokedKey, "the host key is revoked (~/revoked:2)"},
	{"key in RevokedHostKeys, localhost", "", "", "KEY", "NoHostAuthenticationForLocalhost yes", KindRevokedKey, "(~/revoked:1)"},
	{"authority in RevokedHostKeys, localhost", goodCert, "@cert-authority * CA", "CA", "NoHostAuthenticationForLocalhost yes", KindRevokedKey, "(~/revoked:1)"},
	{"no RevokedHostKeys", "", "NAME KEY", "", "RevokedHostKeys ~/none", KindConfig, "RevokedHostKeys ~/none: no such file"},
	{"RevokedHostKeys of junk", "", "NAME KEY", "what?", "", KindConfig, "RevokedHostKeys ~/revoked: line 1 is not a key"},
	{"control: localhost", "", "", "RSA", "NoHostAuthenticationForLocalhost yes", "", ""},

	{"expired", "-s CA -h -n 127.0.0.1 -V -2d:-1d", "@cert-authority * CA", "", "", KindHostCert, "has expired"},
	{"expired, key known", "-s CA -h -n 127.0.0.1 -V -2d:-1d", "@cert-authority * CA\nNAME KEY", "", "", "", ""},
	{"not yet valid", "-s CA -h -n 127.0.0.1 -V +1d:+2d", "@cert-authority * CA", "", "", KindHostCert, "not yet valid"},
	{"not yet valid, key known", "-s CA -h -n 127.0.0.1 -V +1d:+2d", "@cert-authority * CA\nHASHED KEY", "", "", "", ""},
	{"wrong principal", "-s CA -h -n 127.0.0.2", "@cert-authority * CA", "", "", KindHostCert, "principal"},
	{"wrong principal, another key known", "-s CA -h -n 127.0.0.2", "@cert-authority * CA\nNAME RSA", "", "", KindChangedKey, "has changed"},
	{"without principals", "-s CA -h", "@cert-authority * CA", "", "", KindHostCert, "contains no host name"},
	{"without principals, key known", "-s CA -h", "@cert-authority * CA\nNAME KEY", "", "", "", ""},
	{"without principals, the key is recorded", "-s CA -h", "@cert-authority * CA", "", "StrictHostKeyChecking accept-new", "", ""},
	{"a user's certificate", "-s CA -n 127.0.0.1", "@cert-authority * CA", "", "", KindHostCert, "a user's certificate"},
	{"a user's certificate, key known", "-s CA -n 127.0.0.1", "@cert-authority * CA\nNAME KEY", "", "", "", ""},
	{"unknown critical option", "-s CA -h -n 127.0.0.1 -O critical:magic@example.org=1", "@cert-authority * CA", "", "", KindHostCert, "critical option"},
	{"unknown critical option, key known", "-s CA -h -n 127.0.0.1 -O critical:magic@example.org=1", "@cert-authority * CA\nNAME KEY", "", "", "", ""},
	{"authority of other hosts", goodCert, "@cert-authority *.example.org CA", "", "", KindUnknownKey, "unknown"},
	{"authority of other hosts, key known", goodCert, "@cert-authority *.example.org CA\nNAME KEY", "", "", "", ""},

	{"signed by SHA-1", "-s OLD -t ssh-rsa -h -n 127.0.0.1", "@cert-authority * OLD", "", "", KindHostCert, "signed with ssh-rsa, which CASignatureAlgorithms does not allow"},
	{"signed by SHA-1, key known", "-s OLD -t ssh-rsa -h -n 127.0.0.1", "@cert-authority * OLD\nNAME KEY", "", "", KindHostCert, "signed with ssh-rsa"},
	{"signed by SHA-1, which is named", "-s OLD -t ssh-rsa -h -n 127.0.0.1", "@cert-authority * OLD", "", "CASignatureAlgorithms +ssh-rsa", "", ""},
	{"control: the same authority by SHA-2", "-s OLD -t rsa-sha2-512 -h -n 127.0.0.1", "@cert-authority * OLD", "", "", "", ""},
	{"SHA-2 not named", goodCert, "@cert-authority * CA", "", "CASignatureAlgorithms rsa-sha2-512", KindHostCert, "signed with ssh-ed25519"},

	{"another key", "", "NAME RSA", "", "", KindChangedKey, "has changed"},
	{"another key, whoever asks", "", "NAME RSA", "", "StrictHostKeyChecking accept-new", KindChangedKey, "has changed"},
	{"revoked, nobody asks", "", "@revoked NAME KEY", "", "StrictHostKeyChecking no", KindRevokedKey, "revoked"},
}

// Each row of TRUST-21 runs against a real server.
func TestOpenSSHTrust(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519"})
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.home+"/CA")
	run(t, "ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", p.home+"/OLD")
	run(t, "ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", p.home+"/RSA")
	config, err := os.ReadFile(s.dir + "/config")
	check(t, err)
	for _, trial := range trials {
		t.Run(trial.name, func(t *testing.T) {
			p, s := &testHome{t: t, home: p.home, key: p.key, d: &Dialer{}}, s
			if trial.cert != "" {
				p.certify(s, trial.cert)
				certified := string(config) + "HostCertificate " + s.dir + "/ed25519-cert.pub\n"
				check(t, os.WriteFile(s.dir+"/config", []byte(certified), 0o600))
				s = &sshd{addr: freeAddr(t), dir: s.dir}
				s.reconfigure(t)
				s.start(t)
			}
			trial.run(p, s)
		})
	}
}

// certify creates a certificate for a server's key; CA and OLD are files in the home directory.
func (p *testHome) certify(s *sshd, how string) {
	p.t.Helper()
	args := []string{"-q", "-I", "n1"}
	for word := range strings.FieldsSeq(how) {
		if word == "CA" || word == "OLD" {
			word = filepath.Join(p.home, word)
		}
		args = append(args, word)
	}
	run(p.t, "ssh-keygen", append(args, s.dir+"/ed25519.pub")...)
}

func (trial trial) run(p *testHome, s *sshd) {
	p.t.Helper()
	p.write(".ssh/known_hosts", trial.fill(p, s, trial.known))
	config := trial.config + "\n"
	if trial.revoked != "" {
		p.write("revoked", trial.fill(p, s, trial.revoked))
		config += "RevokedHostKeys ~/revoked\n"
	}
	me := User{Name: p.real(s).User, Home: p.home, Getenv: func(string) string { return "" }}
	c, err := ReadConfig(p.write(".ssh/config", config), "/dev/null", me)
	check(p.t, err)
	target, err := c.Resolve(context.Background(), "127.0.0.1", me, nowhere)
	check(p.t, err)
	target.Port, target.GlobalKnownHosts = p.real(s).Port, nil
	if trial.want == "" {
		p.dial(target)
		return
	}
	hint := ""
	if trial.says == "contains no host name" {
		hint = "ssh-keygen -h -n NAMES"
	}
	p.want(p.refusal(target), trial.want, trial.says, hint)
}

// fill replaces the placeholders in the text of a file.
func (trial trial) fill(p *testHome, s *sshd, text string) string {
	public := func(name string) string {
		data, err := os.ReadFile(name + ".pub")
		check(p.t, err)
		return strings.Join(strings.Fields(string(data))[:2], " ")
	}
	host, port, _ := net.SplitHostPort(s.addr)
	name := "[" + host + "]:" + port
	return words.ReplaceAllStringFunc(text, func(word string) string {
		switch word {
		case "NAME":
			return name
		case "HASHED":
			return newHashedName(name)
		case "KEY":
			return public(s.dir + "/ed25519")
		}
		return public(p.home + "/" + word)
	}) + "\n"
}

var words = regexp.MustCompile(`\b(NAME|HASHED|KEY|RSA|CA|OLD)\b`)
