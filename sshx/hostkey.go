package sshx

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// A verdict is what known_hosts says about a key that a server has shown.
type verdict struct {
	kind Kind       // empty: the key is good
	line *knownLine // the line that decided, where there is one
	err  error      // why a certificate is not valid
}

// judge decides about a key. name is the host's name in known_hosts, fallback
// what else may be there (empty: nothing), principal the name a certificate
// must be made out to. It follows OpenSSH sshconnect.c, check_host_key, but
// for one thing: a host that is known by other types of keys only counts as
// changed, since we have asked for those types first and the server has none
// of them any more.
func judge(k, fallback *knownKeys, principal string, key ssh.PublicKey, now time.Time) verdict {
	v := judgeUnder(k, principal, key, now)
	if v.kind != KindUnknownKey || fallback == nil {
		return v
	}
	// A key recorded without port is good for the other ports too, but it
	// never makes one look changed.
	if w := judgeUnder(fallback, principal, key, now); w.kind != KindUnknownKey && w.kind != KindChangedKey {
		return w
	}
	return v
}

func judgeUnder(k *knownKeys, principal string, key ssh.PublicKey, now time.Time) verdict {
	for {
		v := judgeLines(k, principal, key, now)
		if v.kind != KindUnknownKey && v.kind != KindChangedKey || !k.deepen() {
			return v
		}
	}
}

func judgeLines(k *knownKeys, principal string, key ssh.PublicKey, now time.Time) verdict {
	cert, isCert := key.(*ssh.Certificate)
	if isCert {
		if l := k.hasKey(markerRevoked, cert.SignatureKey); l != nil {
			return verdict{kind: KindRevokedKey, line: l}
		}
		key = cert.Key
	}
	if l := k.hasKey(markerRevoked, key); l != nil {
		return verdict{kind: KindRevokedKey, line: l}
	}
	if isCert {
		if l := k.hasKey(markerAuthority, cert.SignatureKey); l != nil {
			if err := checkHostCert(cert, principal, now); err != nil {
				return verdict{kind: KindHostCert, line: l, err: err}
			}
			return verdict{line: l}
		}
	}
	// A certificate of an authority we do not know is as good as its key.
	if l := k.hasKey("", key); l != nil {
		return verdict{line: l}
	}
	if l := k.find("", func(l *knownLine) bool { return l.typ == key.Type() }); l != nil {
		return verdict{kind: KindChangedKey, line: l}
	}
	if l := k.find("", func(*knownLine) bool { return true }); l != nil {
		return verdict{kind: KindChangedKey, line: l}
	}
	return verdict{kind: KindUnknownKey}
}

// checkHostCert checks type, name, time and signature. The name may match a
// wildcard in the certificate, which the library does not know.
func checkHostCert(cert *ssh.Certificate, principal string, now time.Time) error {
	if cert.CertType != ssh.HostCert {
		return errors.New("a user's certificate, not a host's")
	}
	for _, p := range cert.ValidPrincipals {
		if matchPatterns([]string{p}, principal) {
			principal = p
			break
		}
	}
	checker := ssh.CertChecker{Clock: func() time.Time { return now }}
	return checker.CheckCert(principal, cert)
}

// hostKeys answers for one connection which host keys to ask for and whether
// the one shown is good.
type hostKeys struct {
	d        *Dialer
	t        Target
	files    []*knownFile
	known    *knownKeys
	fallback *knownKeys // nil: none
}

func (d *Dialer) hostKeys(t Target) *hostKeys {
	h := &hostKeys{d: d, t: t}
	for _, path := range append(t.UserKnownHosts[:len(t.UserKnownHosts):len(t.UserKnownHosts)], t.GlobalKnownHosts...) {
		h.files = append(h.files, d.knownFile(path))
	}
	h.look()
	return h
}

func (h *hostKeys) look() {
	h.known = lookup(h.files, h.t.knownName())
	h.fallback = nil
	if h.t.HostKeyAlias == "" && h.t.Port != 22 && !h.known.any("") && !h.known.any(markerAuthority) {
		h.fallback = lookup(h.files, h.t.certName())
	}
}

// algorithms is the list to offer, in the order that fits what is known.
func (h *hostKeys) algorithms() []string {
	algos := h.t.HostKeyAlgorithms
	if len(algos) == 0 {
		algos = defaultHostKeyAlgos()
	}
	if h.t.HostKeyOrderFixed {
		return algos
	}
	k := h.known
	if h.fallback != nil {
		k = h.fallback
	}
	return orderHostKeyAlgos(algos, k.hasType, k.any(markerAuthority))
}

// check is an ssh.HostKeyCallback.
func (h *hostKeys) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	if h.t.TrustLoopback && isLoopback(remote) {
		return nil
	}
	for _, path := range h.t.RevokedKeys {
		if err := h.checkRevokedFile(path, key); err != nil {
			return err
		}
	}
	v := judge(h.known, h.fallback, h.t.certName(), key, time.Now())
	switch {
	case v.kind == KindUnknownKey && (h.d.AcceptNew || h.t.Strict == "accept-new" || h.t.Strict == "no"):
		return h.record(key)
	case v.kind == KindChangedKey && h.t.Strict == "no":
		h.d.Log.Warn().Str("host", h.t.Alias).Str("line", v.line.where()).Msg("host key has changed; StrictHostKeyChecking no")
		return nil
	case v.kind == "":
		return nil
	}
	return h.refusal(v, key)
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (l *knownLine) where() string { return fmt.Sprintf("%s:%d", l.file, l.line) }

func (h *hostKeys) refusal(v verdict, key ssh.PublicKey) error {
	where := "no file to look in"
	if len(h.t.UserKnownHosts) > 0 {
		where = "not in " + tilde(h.t.Home, h.t.UserKnownHosts[0])
	}
	if v.line != nil {
		where = tilde(h.t.Home, v.line.where())
	}
	shown := ssh.FingerprintSHA256(plainKey(key))
	switch v.kind {
	case KindChangedKey:
		return fail(h.t, "host key", v.kind, "the host key has changed: this may be an attack, or the host was installed anew").
			at("%s of %s, another one at %s", shown, h.t.knownName(), where).
			hint("if you know why, forget the old key with: ssh-keygen -R '%s'", h.t.knownName())
	case KindRevokedKey:
		return fail(h.t, "host key", v.kind, "the host key is revoked").at("%s, %s", shown, where)
	case KindHostCert:
		return fail(h.t, "host key", v.kind, "the host's certificate is not valid: %s", strings.TrimPrefix(v.err.Error(), "ssh: ")).
			at("authority at %s", where).because(v.err)
	}
	return fail(h.t, "host key", KindUnknownKey, "the host key is unknown").
		at("%s %s of %s, %s", plainKey(key).Type(), shown, h.t.knownName(), where)
}

func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// checkRevokedFile looks a key up in RevokedHostKeys, a list of public keys.
// The binary kind (KRL) is not read: then no host can be trusted.
func (h *hostKeys) checkRevokedFile(path string, key ssh.PublicKey) error {
	data, err := os.ReadFile(path)
	if err != nil || bytes.HasPrefix(data, []byte("SSHKRL\n\x00")) {
		if err == nil {
			err = errors.New("a KRL, which the built-in client cannot read")
		}
		return fail(h.t, "host key", KindConfig, "RevokedHostKeys %s: %v", tilde(h.t.Home, path), err).
			because(err).hint("use -launcher-exec ssh")
	}
	for len(data) > 0 {
		revoked, _, _, rest, err := ssh.ParseAuthorizedKey(data)
		if err != nil {
			break // no further key in the file
		}
		if bytes.Equal(revoked.Marshal(), plainKey(key).Marshal()) {
			return fail(h.t, "host key", KindRevokedKey, "the host key is revoked").
				at("%s, %s", ssh.FingerprintSHA256(revoked), tilde(h.t.Home, path))
		}
		data = rest
	}
	return nil
}

// record adds an unknown key to the user's first known_hosts file, unless
// another connection to the same host has just done so. A file that cannot be
// written is reported and does not stop the connection, as with OpenSSH.
func (h *hostKeys) record(key ssh.PublicKey) error {
	h.d.recording.Lock()
	defer h.d.recording.Unlock()
	h.look()
	switch v := judge(h.known, h.fallback, h.t.certName(), key, time.Now()); {
	case v.kind == "":
		return nil
	case v.kind != KindUnknownKey && !(v.kind == KindChangedKey && h.t.Strict == "no"):
		return h.refusal(v, key)
	}
	if len(h.t.UserKnownHosts) == 0 {
		return nil
	}
	path := h.t.UserKnownHosts[0]
	key = plainKey(key)
	name := h.t.knownName()
	if h.t.HashKnownHosts {
		name = newHashedName(name)
	}
	line := name + " " + key.Type() + " " + keyText(key)
	if err := appendLine(path, line); err != nil {
		h.d.Log.Warn().Err(err).Str("file", path).Msg("cannot record a new host key")
		return nil
	}
	f := h.d.knownFile(path)
	f.mu.Lock()
	f.add(line, 0)
	f.mu.Unlock()
	h.d.Log.Info().Str("host", h.t.Alias).Str("key", ssh.FingerprintSHA256(key)).Msg("recorded a new host key")
	return nil
}

func newHashedName(name string) string {
	var salt [sha1.Size]byte
	rand.Read(salt[:])
	sum := hashName(salt[:], name)
	b64 := base64.StdEncoding.EncodeToString
	return "|1|" + b64(salt[:]) + "|" + b64(sum[:])
}

// appendLine adds a line with a single write, so that other programs may do
// the same at that moment. A last line without end is ended first.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return f.Close()
}
