//go:build linux

package testbed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// A file is a file in the cluster's state directory. name is relative to that directory.
type file struct {
	name string
	mode os.FileMode
	text string
}

// writeFiles writes files to the state directory, and creates their directories.
func (f *Cluster) writeFiles(files []file) error {
	for _, w := range files {
		name := f.path(w.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(w.text), w.mode); err != nil {
			return err
		}
	}
	return nil
}

// newKey makes an ed25519 key pair. private is in OpenSSH's format. public is a line for authorized_keys without a
// newline.
func newKey(comment string) (private, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return "", "", err
	}
	signer, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", "", err
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(signer)), "\n")
	return string(pem.EncodeToMemory(block)), line, nil
}

// startupFiles returns shell startup files for the home directory dir. They contain only a comment. The machine's own
// files would take time at each login and distort measurements.
func startupFiles(dir string) []file {
	return []file{
		{dir + "/.bashrc", 0o644, "# a host of a test field\n"},
		{dir + "/.profile", 0o644, "# a host of a test field\n"},
	}
}

// homeFiles returns the files of the head's home directory: startup files, the key pair, authorized_keys, known_hosts
// and the ssh configuration. userKey is the private key, and userPub is the public key.
func (f *Cluster) homeFiles(o Options, userKey, userPub string) []file {
	return append(startupFiles("home"),
		file{"home/.ssh/id_ed25519", 0o600, userKey},
		file{"home/.ssh/id_ed25519.pub", 0o644, userPub + "\n"},
		file{"home/.ssh/authorized_keys", 0o600, userPub + "\n"},
		file{"home/.ssh/known_hosts", 0o600, knownHosts(f.Hosts, o.HashKnown)},
		file{"home/.ssh/config", 0o600, f.sshConfig(o)},
	)
}

// knownHosts returns a known_hosts file with the name and the address of each host. OpenSSH looks up both name
// and address if the name is in /etc/hosts. If the port is not 22, OpenSSH looks up "[addr]:port".
func knownHosts(hosts []Host, hash bool) string {
	var b strings.Builder
	for _, h := range hosts {
		for _, name := range []string{h.Name, h.Addr} {
			name = knownhosts.Normalize(fmt.Sprintf("%s:%d", name, h.Port))
			if hash {
				name = knownhosts.HashHostname(name)
			}
			fmt.Fprintf(&b, "%s %s\n", name, h.Key)
		}
	}
	return b.String()
}

// sshConfig returns the head's ~/.ssh/config. Hosts of kind Namespaces need no entry. The entry of any other host sets
// the address of the host, the key file and the known_hosts file. Without these settings, ssh would use the home
// directory from the user database and not $HOME.
func (f *Cluster) sshConfig(o Options) string {
	var b strings.Builder
	b.WriteString(o.SSHConfig)
	if f.Kind == Namespaces {
		return b.String()
	}
	for _, h := range f.Hosts {
		b.WriteString(f.aliasEntry(h, h.Name))
	}
	return b.String()
}

// aliasEntry returns an entry of an ssh configuration that makes each of names an alias of a host.
func (f *Cluster) aliasEntry(h Host, names ...string) string {
	text := fmt.Sprintf("Host %s\n\tHostName %s\n\tPort %d\n", strings.Join(names, " "), h.Addr, h.Port)
	if f.Kind == Namespaces {
		return text
	}
	dir := filepath.Join(f.Home, ".ssh")
	return text + fmt.Sprintf("\tIdentityFile %s\n\tIdentitiesOnly yes\n\tUserKnownHostsFile %s\n",
		filepath.Join(dir, "id_ed25519"), filepath.Join(dir, "known_hosts"))
}

// AddAlias makes each of names an alias of a host, for all programs that read the head's ssh configuration.
func (f *Cluster) AddAlias(host string, names ...string) error {
	h, err := f.Host(host)
	if err != nil {
		return err
	}
	name := filepath.Join(f.Home, ".ssh", "config")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, append([]byte(f.aliasEntry(h, names...)), old...), 0o600)
}

// sshdConfig returns the configuration of one host's sshd, whose files are in dir. o.SSHDConfig comes first,
// because OpenSSH uses the first value of each keyword.
func (f *Cluster) sshdConfig(o Options, h Host, dir string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if o.SSHDConfig != "" {
		line("%s", strings.TrimSuffix(o.SSHDConfig, "\n"))
	}
	if o.MaxStartups != "" {
		line("MaxStartups %s", o.MaxStartups)
	}
	line("Port %d", h.Port)
	line("ListenAddress %s", h.Addr)
	line("HostKey %s/ssh_host_ed25519_key", dir)
	line("PidFile %s/sshd.pid", dir)
	line("PermitRootLogin yes")
	line("PasswordAuthentication no")
	line("KbdInteractiveAuthentication no")
	line("UsePAM no")
	line("PrintMotd no")
	if f.Kind == Namespaces {
		return b.String()
	}
	// StrictModes would reject the cluster's home because of the folders above it. The
	// mark identifies the host of a process.
	line("StrictModes no")
	line("AuthorizedKeysFile %s", filepath.Join(f.Home, ".ssh", "authorized_keys"))
	line("SetEnv %s=%s HOME=%s", markName, f.markOf(h.Name), f.hostHome(o, h.Name))
	return b.String()
}

// hostHome returns the $HOME of a host, for clusters that are not of kind Namespaces.
func (f *Cluster) hostHome(o Options, host string) string {
	if o.SharedHome {
		return f.Home
	}
	return f.path("hosts", host, "home")
}

// hostFiles returns the files in the directory of host i and sets the host's Key. dir is the path of that directory
// as the host's sshd sees it.
func (f *Cluster) hostFiles(o Options, i int, dir string) ([]file, error) {
	h := &f.Hosts[i]
	key, public, err := newKey("root@" + h.Name)
	if err != nil {
		return nil, err
	}
	h.Key = public
	in := "hosts/" + h.Name + "/"
	return []file{
		{in + "ssh_host_ed25519_key", 0o600, key},
		{in + "ssh_host_ed25519_key.pub", 0o644, public + "\n"},
		{in + "sshd_config", 0o600, f.sshdConfig(o, *h, dir)},
	}, nil
}
