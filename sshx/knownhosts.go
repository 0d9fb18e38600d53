package sshx

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// A knownLine is one key of a known_hosts file (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT). The key is kept in base64. It is
// decoded only if the line revokes keys or belongs to a certificate authority. Otherwise keys are compared as text.
type knownLine struct {
	file   string
	line   int
	marker string   // "", "@cert-authority" or "@revoked"
	hosts  []string // patterns; nil if the name is hashed
	typ    string
	key    string // base64
}

const (
	markerAuthority = "@cert-authority"
	markerRevoked   = "@revoked"
)

// A hashedLine is a line of known_hosts whose host name is stored as an HMAC-SHA1 with a salt (HashKnownHosts).
type hashedLine struct {
	knownLine
	salt, sum []byte
}

// A knownFile is an index of one known_hosts file. A map holds the names without wildcards. Patterns and hashed
// names are searched one by one.
type knownFile struct {
	path string
	info fs.FileInfo // when the file was read; nil if it did not exist

	mu       sync.RWMutex // guards the fields below; accept-new adds lines
	names    map[string][]*knownLine
	patterns []*knownLine
	hashed   []*hashedLine
	revoked  []*hashedLine // the lines of hashed that revoke: few, and always searched
}

func readKnownFile(path string) (*knownFile, error) {
	info, _ := os.Stat(path) // before reading: a change meanwhile must be noticed
	data, err := os.ReadFile(path)
	f := newKnownFile(path, string(data))
	f.info = info
	return f, err
}

func newKnownFile(path, text string) *knownFile {
	f := &knownFile{path: path, names: map[string][]*knownLine{}}
	f.parse(text)
	return f
}

// hasChanged reports whether the file has changed since it was read.
func (f *knownFile) hasChanged() bool {
	now, _ := os.Stat(f.path)
	if now == nil || f.info == nil {
		return now != f.info
	}
	return !os.SameFile(now, f.info) || !now.ModTime().Equal(f.info.ModTime()) || now.Size() != f.info.Size()
}

func (f *knownFile) parse(data string) {
	for n := 1; data != ""; n++ {
		var text string
		text, data, _ = strings.Cut(data, "\n")
		f.addLine(text, n)
	}
}

// addLine adds one line of a known_hosts file to the index. Like OpenSSH, it ignores lines that it cannot
// parse, because the file may contain key types of other programs.
func (f *knownFile) addLine(text string, n int) {
	l := knownLine{file: f.path, line: n}
	word, rest := nextField(text)
	if strings.HasPrefix(word, "@") {
		l.marker = word
		word, rest = nextField(rest)
	}
	l.typ, rest = nextField(rest)
	l.key, _ = nextField(rest)
	switch {
	case word == "" || word[0] == '#' || l.key == "":
	case l.marker != "" && l.marker != markerAuthority && l.marker != markerRevoked:
	case word[0] == '|':
		if h := newHashedLine(word, l); h != nil {
			f.hashed = append(f.hashed, h)
			if l.marker == markerRevoked {
				f.revoked = append(f.revoked, h)
			}
		}
	default:
		f.indexLine(word, &l)
	}
}

func (f *knownFile) indexLine(hosts string, l *knownLine) {
	l.hosts = strings.Split(strings.ToLower(hosts), ",")
	if strings.ContainsAny(hosts, "*?!") {
		f.patterns = append(f.patterns, l)
		return
	}
	for _, name := range l.hosts {
		f.names[name] = append(f.names[name], l)
	}
}

func nextField(s string) (field, rest string) {
	s = strings.TrimLeft(s, " \t\r")
	i := strings.IndexAny(s, " \t\r")
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// newHashedLine parses a hashed name of the form |1|salt|sum. It returns nil for any other word.
func newHashedLine(word string, l knownLine) *hashedLine {
	parts := strings.Split(word, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return nil
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	sum, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil || len(salt) > sha1.BlockSize || len(sum) != sha1.Size {
		return nil
	}
	return &hashedLine{knownLine: l, salt: salt, sum: sum}
}

func (h *hashedLine) matches(name string) bool {
	return hmac.Equal(hashName(h.salt, name), h.sum)
}

// hashName returns the hash of a name with a salt, as HashKnownHosts stores it.
func hashName(salt []byte, name string) []byte {
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(name))
	return h.Sum(nil)
}

// openLines returns the lines that match a name and do not contain hashed names. It looks the name up in the map, and
// then tries each pattern.
func (f *knownFile) openLines(name string) []*knownLine {
	f.mu.RLock()
	defer f.mu.RUnlock()
	lines := f.names[name]
	found := lines[:len(lines):len(lines)]
	for _, l := range f.patterns {
		if matchPatterns(l.hosts, name) {
			found = append(found, l)
		}
	}
	return found
}

// hashedLines returns the lines whose hashed host name matches name.
func (f *knownFile) hashedLines(name string) []*knownLine {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var found []*knownLine
	for _, h := range f.hashed {
		if h.matches(name) {
			found = append(found, &h.knownLine)
		}
	}
	return found
}

// findRevocation returns a line that revokes a key, or the authority that signed the key, for one of the given
// names. It returns nil if no line does (rule TRUST-21).
func findRevocation(files []*knownFile, names []string, key ssh.PublicKey) *knownLine {
	keys := []ssh.PublicKey{plainKey(key)}
	if cert, ok := key.(*ssh.Certificate); ok {
		keys = append(keys, cert.SignatureKey)
	}
	for _, f := range files {
		for _, l := range f.revokingLines(names) {
			if slices.ContainsFunc(keys, l.hasKey) {
				return l
			}
		}
	}
	return nil
}

// revokingLines returns the lines that revoke keys for one of the given names.
func (f *knownFile) revokingLines(names []string) (found []*knownLine) {
	for _, name := range names {
		for _, l := range f.openLines(name) {
			if l.marker == markerRevoked {
				found = append(found, l)
			}
		}
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, h := range f.revoked {
		if slices.ContainsFunc(names, h.matches) {
			found = append(found, &h.knownLine)
		}
	}
	return found
}

// hasKey reports whether the line has this key. It compares the bytes of the decoded base64.
func (l *knownLine) hasKey(key ssh.PublicKey) bool {
	blob, err := base64.StdEncoding.DecodeString(l.key)
	return err == nil && bytes.Equal(blob, key.Marshal())
}

// knownKeys holds the lines of some known_hosts files for one name. Hashed lines are added only if needed, since
// testing a hashed line takes a thousand times as long as testing any other line.
type knownKeys struct {
	files          []*knownFile
	name           string
	lines          []*knownLine
	hashedIncluded bool // hashed lines were added
}

// lookUpKnown collects the lines that match a name. It tests hashed lines only if no unhashed line that has no marker
// (such as @revoked) matches.
func lookUpKnown(files []*knownFile, name string) *knownKeys {
	k := &knownKeys{files: files, name: name}
	for _, f := range files {
		k.lines = append(k.lines, f.openLines(name)...)
	}
	if !k.hasMarker("") {
		k.includeHashed()
	}
	return k
}

// includeHashed adds the hashed lines. It returns false if they were added before.
func (k *knownKeys) includeHashed() bool {
	if k.hashedIncluded {
		return false
	}
	k.hashedIncluded = true
	for _, f := range k.files {
		k.lines = append(k.lines, f.hashedLines(k.name)...)
	}
	return true
}

// hasMarker reports whether there is a line with the given marker, such as @cert-authority.
func (k *knownKeys) hasMarker(marker string) bool {
	return k.find(marker, func(*knownLine) bool { return true }) != nil
}

// hasType reports whether a line without a marker has a key of the given type.
func (k *knownKeys) hasType(typ string) bool {
	return k.find("", func(l *knownLine) bool { return l.typ == typ }) != nil
}

// lineWithKey returns the line with the given marker and exactly the given key, or nil.
func (k *knownKeys) lineWithKey(marker string, key ssh.PublicKey) *knownLine {
	text := keyText(key)
	return k.find(marker, func(l *knownLine) bool { return l.key == text })
}

func (k *knownKeys) find(marker string, ok func(*knownLine) bool) *knownLine {
	for _, l := range k.lines {
		if l.marker == marker && ok(l) {
			return l
		}
	}
	return nil
}

// keyText returns a key in the notation of known_hosts.
func keyText(key ssh.PublicKey) string {
	return base64.StdEncoding.EncodeToString(key.Marshal())
}
