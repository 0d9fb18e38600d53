package sshx

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// defaultIdentities are the keys tried when none is configured (ssh(1), -i),
// the cheap ones first. Keys on hardware (id_*_sk) work through the agent only.
func defaultIdentities(home string) []string {
	var names []string
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		names = append(names, filepath.Join(home, ".ssh", name))
	}
	return names
}

// A keyFile is one private key, read at most once per Dialer. pub, cert, signer
// and err do not change after load; an encrypted key gets its signer later.
type keyFile struct {
	path string
	pub  ssh.PublicKey    // nil: not known before the key is unlocked
	cert *ssh.Certificate // from path-cert.pub; nil: none
	err  error            // why it is of no use; nil: usable, or locked

	locked bool
	data   []byte // of a locked key

	mu     sync.Mutex // guards what follows; held while the user is asked
	signer ssh.Signer
	failed error // the user could not unlock it
}

// lockedKeyError says that a key needs a passphrase nobody can be asked for.
type lockedKeyError struct{ path string }

func (e *lockedKeyError) Error() string {
	return fmt.Sprintf("%s is encrypted and there is no terminal to ask on", e.path)
}

func (e *lockedKeyError) Hint() string { return "run: ssh-add " + e.path }

func loadKey(path string) *keyFile {
	k := &keyFile{path: path}
	data, err := readPrivate(path)
	if err != nil {
		k.err = err
		k.pub = readPublic(path + ".pub") // the agent may have the private half
		return k
	}
	k.signer, err = ssh.ParsePrivateKey(data)
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		k.pub = k.signer.PublicKey()
	case errors.As(err, &missing):
		k.locked, k.data, k.pub = true, data, missing.PublicKey
		if k.pub == nil {
			k.pub = readPublic(path + ".pub")
		}
	default: // a public key stands for one that the agent has
		if k.pub = parsePublic(data); k.pub == nil {
			k.pub = readPublic(path + ".pub")
		}
		k.err = fmt.Errorf("no private key in it")
	}
	if cert, ok := readPublic(path + "-cert.pub").(*ssh.Certificate); ok {
		k.cert = cert
	}
	return k
}

// readPrivate refuses a key that others can read, as OpenSSH does (authfile.c,
// sshkey_perm_ok).
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 && bytes.Contains(data, []byte("PRIVATE KEY")) {
		return nil, fmt.Errorf("permissions %04o are too open (chmod 600)", info.Mode().Perm())
	}
	return data, nil
}

func readPublic(path string) ssh.PublicKey {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return parsePublic(data)
}

func parsePublic(data []byte) ssh.PublicKey {
	pub, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil
	}
	return pub
}

// passphraseTries is how often a mistyped passphrase may be given again.
const passphraseTries = 3

// unlock returns the key's signer and asks for its passphrase if that is still
// to do. However many connections need the key, the user is asked once.
func (k *keyFile) unlock(ask func(prompt string) ([]byte, error), name string) (ssh.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.signer != nil || k.failed != nil {
		return k.signer, k.failed
	}
	if ask == nil {
		k.failed = &lockedKeyError{name}
		return nil, k.failed
	}
	for range passphraseTries {
		pass, err := ask("Passphrase for key " + name + ": ")
		if err == nil {
			k.signer, err = ssh.ParsePrivateKeyWithPassphrase(k.data, pass)
		}
		clear(pass)
		k.failed = err
		if err == nil || !errors.Is(err, x509.IncorrectPasswordError) {
			break
		}
	}
	if k.failed != nil {
		k.failed = fmt.Errorf("%s: %w", name, k.failed)
	}
	return k.signer, k.failed
}
