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

// defaultIdentities returns the key files to try if none is configured (ssh(1), -i). The fastest algorithms come first.
// Keys on security hardware (id_*_sk) work only through ssh-agent.
func defaultIdentities(home string) []string {
	var names []string
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		names = append(names, filepath.Join(home, ".ssh", name))
	}
	return names
}

// A keyFile is one private key, which is read at most once for each Dialer. After loadKey, only unlock changes it, and
// only if the key is encrypted.
type keyFile struct {
	path string
	pub  ssh.PublicKey    // nil if not known before unlock
	cert *ssh.Certificate // from path-cert.pub; nil if there is none
	err  error            // why the key cannot be used; nil if it can, or is locked

	locked bool
	data   []byte // content of a locked key file

	mu     sync.Mutex // guards the fields below; held while asking the user
	signer ssh.Signer
	failed error // why the user could not unlock the key
}

// A lockedKeyError is returned for a key that needs a passphrase if there is no user to ask for the passphrase.
type lockedKeyError struct{ path string }

func (e *lockedKeyError) Error() string {
	return fmt.Sprintf("%s is encrypted, and there is no terminal to ask for the passphrase", e.path)
}

func (e *lockedKeyError) Hint() string { return "run: ssh-add " + e.path }

func loadKey(path string) *keyFile {
	k := &keyFile{path: path}
	data, err := readPrivate(path)
	if err != nil {
		k.err = err
		k.pub = readPublic(path + ".pub") // the agent may have the private key
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
	default: // a public key file stands for a private key in the agent
		if k.pub = parsePublic(data); k.pub == nil {
			k.pub = readPublic(path + ".pub")
		}
		k.err = fmt.Errorf("it contains no private key")
	}
	if cert, ok := readPublic(path + "-cert.pub").(*ssh.Certificate); ok {
		k.cert = cert
	}
	return k
}

// readPrivate reads the file of a private key. As in OpenSSH, a file that other users can read is an error (authfile.c,
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
		return nil, fmt.Errorf("other users can access the file (mode %04o)", info.Mode().Perm())
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

// passphraseTries is the maximum number of times that the user is asked for the passphrase of a key.
const passphraseTries = 3

// unlock returns the signer of the key. If the key is encrypted, unlock asks the user for the passphrase, at most
// passphraseTries times even if many connections need the key. name is the key's name in prompts and errors.
func (k *keyFile) unlock(askUser func(prompt string) ([]byte, error), name string) (ssh.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.signer != nil || k.failed != nil {
		return k.signer, k.failed
	}
	if askUser == nil {
		k.failed = &lockedKeyError{name}
		return nil, k.failed
	}
	for range passphraseTries {
		pass, err := askUser("Passphrase for key " + name + ": ")
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
