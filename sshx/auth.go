package sshx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// An authKey is a public key to offer to a server. Offering the key does not require the private key.
type authKey struct {
	name string // for messages
	pub  ssh.PublicKey
	// sign is called when the server would accept the key. If asksUser is true, it may wait for the
	// user, and the deadline is paused.
	sign     func(ctx context.Context, data []byte, algorithm string) (*ssh.Signature, error)
	asksUser bool
	// unlock returns the public key if pub is nil, because the key file is encrypted and does not show it.
	unlock func() (ssh.PublicKey, error)
}

// A keyOffer holds the keys that may be offered to one target.
type keyOffer struct {
	files          []*keyFile
	certs          []*ssh.Certificate // from CertificateFile
	agent          *keyAgent          // nil if there is none
	listed         []*agent.Key
	identitiesOnly bool // IdentitiesOnly
	home           string
	ask            func(string) ([]byte, error)
	now            time.Time
}

// candidates returns the keys to offer in OpenSSH's order (sshconnect2.c, pubkey_prepare). Certificates come first.
// Then come configured keys that the agent has, other keys of the agent, and keys that are only in files. Keys that
// cannot be offered before the user types a passphrase come last.
func (k *keyOffer) candidates() []authKey {
	var certs, both, files, late []authKey
	inFiles := func(pub ssh.PublicKey) bool {
		return slices.ContainsFunc(k.files, func(f *keyFile) bool { return samePublic(f.pub, pub) })
	}
	for _, cert := range k.certs {
		certs = append(certs, k.withCertificate(cert)...)
	}
	for _, f := range k.files {
		if f.cert != nil {
			certs = append(certs, k.withCertificate(f.cert)...)
		}
		a := k.findInAgent(f.pub)
		switch {
		case a != nil:
			both = append(both, k.agentKey(a))
		case f.err != nil:
		case f.pub == nil:
			late = append(late, k.fileKey(f))
		default:
			files = append(files, k.fileKey(f))
		}
	}
	var others []authKey
	for _, a := range k.listed {
		if pub := agentPublic(a); pub != nil && !k.identitiesOnly && !inFiles(pub) {
			others = append(others, k.agentKey(a))
		}
	}
	return uniqueKeys(slices.Concat(certs, both, others, files, late))
}

// withCertificate returns a certificate together with its private key. It returns nil if no such private key
// is known or the certificate is not valid.
func (k *keyOffer) withCertificate(cert *ssh.Certificate) []authKey {
	if cert.CertType != ssh.UserCert || !validAt(cert, k.now) {
		return nil
	}
	c := authKey{}
	if a := k.findInAgent(cert.Key); a != nil {
		c = k.agentKey(a)
	} else {
		i := slices.IndexFunc(k.files, func(f *keyFile) bool { return f.err == nil && samePublic(f.pub, cert.Key) })
		if i < 0 {
			return nil
		}
		c = k.fileKey(k.files[i])
	}
	c.name, c.pub = "certificate "+cert.KeyId+" of "+c.name, cert
	return []authKey{c}
}

func validAt(cert *ssh.Certificate, now time.Time) bool {
	at := uint64(now.Unix())
	return at >= cert.ValidAfter && (at < cert.ValidBefore || cert.ValidBefore == ssh.CertTimeInfinity)
}

func (k *keyOffer) findInAgent(pub ssh.PublicKey) *agent.Key {
	i := slices.IndexFunc(k.listed, func(a *agent.Key) bool { return pub != nil && bytes.Equal(a.Blob, pub.Marshal()) })
	if i < 0 {
		return nil
	}
	return k.listed[i]
}

func (k *keyOffer) agentKey(a *agent.Key) authKey {
	pub := agentPublic(a)
	return authKey{
		name: "agent's " + a.Comment,
		pub:  pub,
		sign: func(ctx context.Context, data []byte, algorithm string) (*ssh.Signature, error) {
			return k.agent.sign(ctx, pub, data, algorithm)
		},
	}
}

func agentPublic(a *agent.Key) ssh.PublicKey {
	pub, err := ssh.ParsePublicKey(a.Blob)
	if err != nil {
		return nil // a key type that the library does not know
	}
	return pub
}

func (k *keyOffer) fileKey(f *keyFile) authKey {
	name := shortenHome(k.home, f.path)
	c := authKey{name: name, pub: f.pub, asksUser: f.locked}
	c.sign = func(_ context.Context, data []byte, algorithm string) (*ssh.Signature, error) {
		signer, err := f.unlock(k.ask, name)
		if err != nil {
			return nil, err
		}
		return signWith(signer, data, algorithm)
	}
	c.unlock = func() (ssh.PublicKey, error) {
		signer, err := f.unlock(k.ask, name)
		if err != nil {
			return nil, err
		}
		return signer.PublicKey(), nil
	}
	return c
}

func signWith(signer ssh.Signer, data []byte, algorithm string) (*ssh.Signature, error) {
	if s, ok := signer.(ssh.AlgorithmSigner); ok {
		return s.SignWithAlgorithm(nil, data, algorithm)
	}
	return signer.Sign(nil, data)
}

func samePublic(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

// uniqueKeys returns list without duplicate keys.
func uniqueKeys(list []authKey) []authKey {
	var out []authKey
	for _, c := range list {
		if !slices.ContainsFunc(out, func(o authKey) bool { return samePublic(o.pub, c.pub) }) {
			out = append(out, c)
		}
	}
	return out
}

// unusableKeys returns why keys were not offered, for the error about a refused login. If configured is false,
// the keys are the default keys, and unusableKeys leaves out keys whose files do not exist.
func (k *keyOffer) unusableKeys(configured bool) []string {
	var notes []string
	for _, f := range k.files {
		if f.err == nil || k.findInAgent(f.pub) != nil || !configured && errors.Is(f.err, fs.ErrNotExist) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: %v", shortenHome(k.home, f.path), f.err))
	}
	return notes
}

// A loginAttempt offers keys to a server on one connection. Each call of nextKey offers one key, and skips
// keys that cannot sign.
type loginAttempt struct {
	ctx       context.Context
	pause     func() (resume func()) // stops the deadline while the user types
	remaining []authKey
	allowed   []string // algorithms that the configuration accepts; nil: all

	tried          []string
	methods        []string // the methods that the server accepts
	partialSuccess bool     // a key was accepted, but the server requires more
	failed         error    // error of the last key that could not sign
}

// nextKey returns the next key to offer. It is an ssh.ClientAuthCallback.
func (l *loginAttempt) nextKey(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.methods = c.AllowedMethods
	l.partialSuccess = len(c.PartialSuccessMethods) > 0
	if err := context.Cause(l.ctx); err != nil {
		return nil, err
	}
	if !slices.Contains(c.AllowedMethods, "publickey") {
		return nil, errNoMoreKeys
	}
	for len(l.remaining) > 0 {
		cand := l.remaining[0]
		l.remaining = l.remaining[1:]
		if signer := l.signer(cand); signer != nil {
			l.tried = append(l.tried, cand.name)
			return ssh.PublicKeys(signer), nil
		}
	}
	return nil, errNoMoreKeys
}

var errNoMoreKeys = errors.New("there are no more keys to try")

// signer returns an ssh.Signer for a key, or nil if the key cannot be used.
func (l *loginAttempt) signer(c authKey) ssh.Signer {
	if c.pub == nil {
		resume := l.pause()
		c.pub, l.failed = c.unlock()
		resume()
		if l.failed != nil {
			return nil
		}
	}
	s := &loginSigner{authKey: c, attempt: l}
	if l.allowed == nil {
		return s
	}
	var algos []string
	for _, a := range l.allowed {
		if keyType(a) == c.pub.Type() {
			algos = append(algos, strings.TrimSuffix(a, certSuffix))
		}
	}
	if algos == nil {
		return nil
	}
	return &limitedSigner{s, unique(algos)}
}

// A loginSigner is an ssh.Signer that returns an error when the deadline of its connection has passed.
type loginSigner struct {
	authKey
	attempt *loginAttempt
}

var _ ssh.AlgorithmSigner = (*loginSigner)(nil)

func (s *loginSigner) PublicKey() ssh.PublicKey { return s.pub }

func (s *loginSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, "")
}

func (s *loginSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if s.asksUser {
		defer s.attempt.pause()()
	}
	sig, err := s.sign(s.attempt.ctx, data, algorithm)
	if err != nil {
		s.attempt.failed = err
	}
	return sig, err
}

// A limitedSigner is a Signer that uses only the algorithms in PubkeyAcceptedAlgorithms.
type limitedSigner struct {
	*loginSigner
	algos []string
}

var _ ssh.MultiAlgorithmSigner = (*limitedSigner)(nil)

func (s *limitedSigner) Algorithms() []string { return s.algos }
