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
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/deadline"
)

// A keyVerdict is the result of looking up a server's key in known_hosts.
type keyVerdict struct {
	kind Kind       // empty if the key is good
	line *knownLine // the line that decided; may be nil
	err  error      // why the key's certificate is not valid, if the key alone is unknown
}

// judgeHostKey looks up a server's key as OpenSSH does (sshconnect.c, check_host_key). k contains the
// known_hosts lines for the host's name. fallback contains the lines for the name without port, or is nil.
// principal is the name that a certificate must contain.
//
// There are two differences from OpenSSH. A line that revokes the key for either name takes precedence over all
// other lines. If known_hosts contains only keys of other types for the host, the result is KindChangedKey. In
// this case the server did not offer a known type, although mpiexec requested the known types first.
func judgeHostKey(k, fallback *knownKeys, principal string, key ssh.PublicKey, now time.Time) keyVerdict {
	if l := findRevocation(k.files, []string{k.name, principal}, key); l != nil {
		return keyVerdict{kind: KindRevokedKey, line: l}
	}
	v := judgeWithHashed(k, principal, key, now)
	if v.kind != KindUnknownKey || fallback == nil {
		return v
	}
	// A key recorded without port is valid for the other ports too, but it never makes a key count as
	// changed.
	if w := judgeWithHashed(fallback, principal, key, now); w.kind != KindUnknownKey && w.kind != KindChangedKey {
		return w
	}
	return v
}

// judgeWithHashed looks up a key in plain lines first. If no plain line has the key, it looks in hashed lines,
// which are slow to search.
func judgeWithHashed(k *knownKeys, principal string, key ssh.PublicKey, now time.Time) keyVerdict {
	for {
		v := judgeLines(k, principal, key, now)
		if v.kind != KindUnknownKey && v.kind != KindChangedKey || !k.includeHashed() {
			return v
		}
	}
}

// judgeLines looks up a key in the known_hosts lines of a host. A line for the certificate authority that
// signed the key is preferred, then a line with the key itself. If there is neither but the host has another
// key, the result is KindChangedKey.
func judgeLines(k *knownKeys, principal string, key ssh.PublicKey, now time.Time) keyVerdict {
	var invalid keyVerdict // of a certificate that is not valid; its key is judged alone
	if cert, ok := key.(*ssh.Certificate); ok {
		if l := k.lineWithKey(markerAuthority, cert.SignatureKey); l != nil {
			err := checkHostCert(cert, principal, now)
			if err == nil {
				return keyVerdict{line: l}
			}
			invalid = keyVerdict{line: l, err: err}
		}
		key = cert.Key
	}
	if l := k.lineWithKey("", key); l != nil {
		return keyVerdict{line: l}
	}
	if l := k.find("", func(l *knownLine) bool { return l.typ == key.Type() }); l != nil {
		return keyVerdict{kind: KindChangedKey, line: l}
	}
	if l := k.find("", func(*knownLine) bool { return true }); l != nil {
		return keyVerdict{kind: KindChangedKey, line: l}
	}
	invalid.kind = KindUnknownKey
	return invalid
}

// errNoPrincipals is returned for a certificate that names no host and so would be valid for every host.
// OpenSSH before version 10.3 accepts such certificates.
var errNoPrincipals = errors.New("the certificate contains no host name")

// checkHostCert checks the type, names, validity period and signature of a host certificate. A name in the
// certificate may be a wildcard, which x/crypto/ssh does not support.
func checkHostCert(cert *ssh.Certificate, principal string, now time.Time) error {
	if cert.CertType != ssh.HostCert {
		return errors.New("the certificate is a user's certificate, not a host's")
	}
	if len(cert.ValidPrincipals) == 0 {
		return errNoPrincipals
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

// A hostKeyChecker checks the host key of one connection. It also chooses the host key algorithms to request.
type hostKeyChecker struct {
	d              *Dialer
	t              Target
	clock          *deadline.Deadline
	files          []*knownFile
	commandOutput  hostsOutput // output of KnownHostsCommand
	commandMissing string      // why KnownHostsCommand was not run; empty if it was
	known          *knownKeys
	fallback       *knownKeys // lines for the name without port; nil: none
}

// newHostKeyChecker returns a hostKeyChecker with the known_hosts lines for the target's host. It reads the
// known_hosts files of the target unless they were read before.
func (d *Dialer) newHostKeyChecker(t Target, clock *deadline.Deadline) *hostKeyChecker {
	h := &hostKeyChecker{d: d, t: t, clock: clock}
	for _, path := range slices.Concat(t.UserKnownHosts, t.GlobalKnownHosts) {
		f := d.knownFile(path)
		if t.ProxyCommand != "" && f.hasChanged() { // by the command, as sss_ssh_knownhostsproxy does
			d.forgetKnownFile(path)
			f = d.knownFile(path)
		}
		h.files = append(h.files, f)
	}
	h.lookUpHost()
	return h
}

// lookUpHost collects the known_hosts lines for the host from all files, and then from the output of KnownHostsCommand
// if that command has run. Lines for the name without port are taken only from the files.
func (h *hostKeyChecker) lookUpHost() {
	files := h.files
	if h.commandOutput.file != nil {
		files = append(slices.Clip(files), h.commandOutput.file)
	}
	h.known = lookUpKnown(files, h.t.knownName())
	h.fallback = nil
	if h.t.HostKeyAlias == "" && h.t.Port != 22 && !h.known.hasMarker("") && !h.known.hasMarker(markerAuthority) {
		h.fallback = lookUpKnown(h.files, h.t.certName())
	}
}

// algorithms returns the host key algorithms to offer. Algorithms for which a key of the host is known come
// first.
func (h *hostKeyChecker) algorithms() ([]string, error) {
	algos := h.t.HostKeyAlgorithms
	if len(algos) == 0 {
		algos = defaultHostKeyAlgos()
	}
	if h.t.HostKeyOrderFixed {
		return algos, nil
	}
	if err := h.runHostsCommand("ORDER", nil); err != nil {
		return nil, err
	}
	k := h.known
	if h.fallback != nil {
		k = h.fallback
	}
	return orderHostKeyAlgos(algos, k.hasType, k.hasMarker(markerAuthority)), nil
}

// checkHostKey decides whether to accept the server's key. It is an ssh.HostKeyCallback. It rejects revoked keys
// even if StrictHostKeyChecking is no (rule TRUST-21).
func (h *hostKeyChecker) checkHostKey(_ string, remote net.Addr, key ssh.PublicKey) error {
	for _, path := range h.t.RevokedKeys {
		if err := h.checkRevokedFile(path, key); err != nil {
			return err
		}
	}
	loopback := h.t.TrustLoopback && isLoopback(remote)
	if !loopback {
		if err := h.runHostsCommand("HOSTNAME", key); err != nil {
			return err
		}
	}
	v := judgeHostKey(h.known, h.fallback, h.t.certName(), key, time.Now())
	if v.kind != KindRevokedKey {
		if err := h.checkSignature(key); err != nil {
			return err
		}
	}
	switch {
	case v.kind != KindRevokedKey && loopback:
		return nil
	case v.kind == KindUnknownKey && (h.d.AcceptNew || h.t.Strict == "accept-new" || h.t.Strict == "no"):
		return h.recordKey(key)
	case v.kind == KindChangedKey && h.t.Strict == "no":
		h.d.Log.Warn().Str("host", h.t.Alias).Str("line", v.line.location()).Msg("the host key has changed, but StrictHostKeyChecking is no")
		return nil
	case v.kind == "":
		return nil
	}
	return h.refusalError(v, key)
}

// checkSignature returns an error if the signature of a certificate uses an algorithm that is not allowed.
// SHA-1 is allowed only if CASignatureAlgorithms names it. x/crypto/ssh itself refuses certificates that were
// signed by another certificate.
func (h *hostKeyChecker) checkSignature(key ssh.PublicKey) error {
	cert, ok := key.(*ssh.Certificate)
	if !ok || slices.Contains(h.t.CAAlgorithms, cert.Signature.Format) {
		return nil
	}
	return newDialError(h.t, "host key", KindHostCert, "the host's certificate is signed with %s, which CASignatureAlgorithms does not allow", cert.Signature.Format).
		withDetails("authority %s", ssh.FingerprintSHA256(cert.SignatureKey))
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (l *knownLine) location() string { return fmt.Sprintf("%s:%d", l.file, l.line) }

func (h *hostKeyChecker) refusalError(v keyVerdict, key ssh.PublicKey) error {
	where := "no known_hosts file is configured"
	if len(h.t.UserKnownHosts) > 0 {
		where = "not in " + shortenHome(h.t.Tilde, h.t.UserKnownHosts[0])
	}
	if v.line != nil {
		where = shortenHome(h.t.Tilde, v.line.location())
	}
	fingerprint := ssh.FingerprintSHA256(plainKey(key))
	switch v.kind {
	case KindChangedKey:
		e := newDialError(h.t, "host key", v.kind, "the host key has changed: this may be an attack, or the host was installed anew").
			withDetails("%s has the key %s, but %s has another key", h.t.knownName(), fingerprint, where)
		if h.commandOutput.file != nil && v.line.file == h.commandOutput.file.path {
			return e.withHint("if the change is expected, correct the key that KnownHostsCommand prints (%s)", shortenHome(h.t.Tilde, h.t.KnownHostsCommand.Origin))
		}
		e.command = h.forgetCommand(v.line)
		return e.withHint("if the change is expected, remove the old key: %s", e.command)
	case KindRevokedKey:
		return h.revokedError(where)
	}
	if v.err != nil {
		e := newDialError(h.t, "host key", KindHostCert, "the host certificate is not valid, and the host key is unknown: %s", strings.TrimPrefix(v.err.Error(), "ssh: ")).
			withDetails("authority at %s", where).withCause(v.err)
		if errors.Is(v.err, errNoPrincipals) {
			e.withHint("sign the host key again, with the host's names in the certificate (ssh-keygen -h -n NAMES), or record the host key with --accept-new-host-keys")
		}
		return e
	}
	return h.unknownKey().withDetails("%s %s of %s, %s", plainKey(key).Type(), fingerprint, h.t.knownName(), where)
}

// unknownKey returns the error for a host key that no known_hosts line contains. The error names the sources of
// known hosts that were not consulted.
func (h *hostKeyChecker) unknownKey() *DialError {
	e := newDialError(h.t, "host key", KindUnknownKey, "the host key is unknown")
	switch {
	case h.commandMissing != "":
		e.Why += fmt.Sprintf("; KnownHostsCommand of %s was not run: %s", shortenHome(h.t.Tilde, h.t.KnownHostsCommand.Origin), h.commandMissing)
	case h.t.VerifyDNS != "":
		e.withHint("use -launcher-exec ssh, which looks for keys in DNS (VerifyHostKeyDNS at %s), or record unknown keys with --accept-new-host-keys",
			shortenHome(h.t.Tilde, h.t.VerifyDNS))
	}
	return e
}

// forgetCommand returns a command with which the user can remove the host from the known_hosts file that
// contains line l.
func (h *hostKeyChecker) forgetCommand(l *knownLine) string {
	words := []string{"ssh-keygen", "-R", h.t.knownName()}
	if l.file != filepath.Join(h.t.Home, ".ssh/known_hosts") { // not the default file
		words = slices.Insert(words, 1, "-f", l.file)
	}
	return quoted(words)
}

// revokedError returns the error for a revoked key. location is the file and line that revokes the key.
func (h *hostKeyChecker) revokedError(location string) error {
	e := newDialError(h.t, "host key", KindRevokedKey, "the host key is revoked (%s)", location)
	e.isSentence = true
	return e
}

func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// checkRevokedFile returns an error if a file of RevokedHostKeys, which is a list of public keys, contains key or
// the authority that signed key. The binary format (KRL) is not supported. If the file is a KRL, or a line is not a
// key, checkRevokedFile returns an error for every key.
func (h *hostKeyChecker) checkRevokedFile(path string, key ssh.PublicKey) error {
	name := shortenHome(h.t.Tilde, path)
	unusable := func(err error) error {
		return newDialError(h.t, "host key", KindConfig, "RevokedHostKeys %s: %v", name, err).withCause(err).withHint("use -launcher-exec ssh")
	}
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		return unusable(innermost(err))
	case bytes.HasPrefix(data, []byte("SSHKRL\n\x00")):
		return unusable(errors.New("the file is a KRL, which the built-in ssh cannot read"))
	}
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		l := knownLine{file: name, line: n}
		l.typ, text = nextField(strings.TrimSpace(text))
		l.key, _ = nextField(text)
		switch _, err := base64.StdEncoding.DecodeString(l.key); {
		case l.typ == "" || l.typ[0] == '#':
		case err != nil || l.key == "":
			return unusable(fmt.Errorf("line %d is not a key", n))
		case l.hasKey(plainKey(key)), signedBy(key, &l):
			return h.revokedError(l.location())
		}
	}
	return nil
}

// signedBy reports whether key is a certificate that was signed with the key of line l.
func signedBy(key ssh.PublicKey, l *knownLine) bool {
	cert, ok := key.(*ssh.Certificate)
	return ok && l.hasKey(cert.SignatureKey)
}

// recordKey adds an unknown key to the user's first known_hosts file, unless another connection to the same
// host has just done so. If the file cannot be written, it logs the error and does not fail, as in OpenSSH.
func (h *hostKeyChecker) recordKey(key ssh.PublicKey) error {
	h.d.recording.Lock()
	defer h.d.recording.Unlock()
	h.lookUpHost()
	switch v := judgeHostKey(h.known, h.fallback, h.t.certName(), key, time.Now()); {
	case v.kind == "":
		return nil
	case v.kind != KindUnknownKey && !(v.kind == KindChangedKey && h.t.Strict == "no"):
		return h.refusalError(v, key)
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
	f.addLine(line, 0)
	f.mu.Unlock()
	h.d.Log.Info().Str("host", h.t.Alias).Str("key", ssh.FingerprintSHA256(key)).Str("file", path).Msg("recorded a new host key")
	if h.d.Recorded != nil && !h.t.OfJob && !h.d.added[path] {
		if h.d.added == nil {
			h.d.added = make(map[string]bool)
		}
		h.d.added[path] = true
		h.d.Recorded(shortenHome(h.t.Tilde, path))
	}
	return nil
}

func newHashedName(name string) string {
	var salt [sha1.Size]byte
	rand.Read(salt[:])
	sum := hashName(salt[:], name)
	b64 := base64.StdEncoding.EncodeToString
	return "|1|" + b64(salt[:]) + "|" + b64(sum)
}

// appendLine appends a line to a file with a single write, so that other programs may append lines at the same
// time. If the last line of the file has no line end, appendLine writes a line end first.
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
