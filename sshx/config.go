package sshx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kevinburke/ssh_config"
)

// A Config is the content of the user's and the system's configuration files, which are read once. It never
// changes, so any number of goroutines may call Resolve.
type Config struct {
	files []*configFile // the first value of a keyword in this order wins
	final bool          // a Match line requires a second pass

	userFile string // the first file that was read, or would be read if it existed; may be empty
}

type configFile struct{ blocks []configBlock }

// A configBlock is a Host or Match line of ssh_config with the lines below it. The lines before the first
// Host or Match form a block that always applies.
type configBlock struct {
	file     string
	line     int
	always   bool
	hosts    []string // patterns of Host
	criteria []string // words of Match
	settings []setting
	unknown  bool // a setting here, or in an included file, has an unknown keyword
}

// A setting is one line below Host or Match. The setting of an Include line contains the included files, which
// apply only if the block applies.
type setting struct {
	file    string
	line    int
	keyword string // as written
	text    string // the value as written, with quotes
	unknown bool   // no known ssh has the keyword
	include []*configFile
}

// hasUnknown reports whether a line of the file, or of an included file, has an unknown keyword.
func (f *configFile) hasUnknown() bool {
	return slices.ContainsFunc(f.blocks, func(b configBlock) bool { return b.unknown })
}

func (s setting) location() string { return fmt.Sprintf("%s:%d", s.file, s.line) }

func (s setting) fail(format string, args ...any) *ConfigError {
	return &ConfigError{File: s.file, Line: s.line, Keyword: s.keyword, Why: fmt.Sprintf(format, args...)}
}

// maxInclude is the maximum depth of nested Include lines (OpenSSH's READCONF_MAX_DEPTH).
const maxInclude = 16

// ReadConfig reads the user's configuration file and then the system's. As in ssh, it ignores a file that does
// not exist or cannot be read, and an empty name (OpenSSH ssh.c, process_config_files). If a line cannot be
// parsed, the error is a *ConfigError.
func ReadConfig(userFile, systemFile string, localUser User) (*Config, error) {
	user := configReader{home: localUser.Home, homeOf: localUser.HomeOf, dir: filepath.Join(localUser.Home, ".ssh"), uid: localUser.UID}
	system := configReader{home: localUser.Home, homeOf: localUser.HomeOf, dir: filepath.Dir(systemFile), uid: localUser.UID, main: systemFile}
	c := &Config{userFile: userFile}
	for _, f := range []struct {
		configReader
		name string
	}{{user, userFile}, {system, systemFile}} {
		if f.name == "" {
			continue
		}
		file, err := f.read(f.name, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, file)
		c.final = c.final || file.wantsFinal()
	}
	return c, nil
}

// With returns the configuration with options that override its files. Each option is KEY=VALUE, as in -o of
// ssh(1). origin names the source of the options, for errors. An option that would have no effect is an
// error.
func (c *Config) With(origin string, options []string) (*Config, error) {
	file, err := configReader{}.parse(origin, []byte(strings.Join(options, "\n")), 0)
	if err != nil {
		return nil, err
	}
	for _, b := range file.blocks[1:] {
		return nil, b.fail("the keywords Host and Match are allowed only in an ssh configuration file")
	}
	for _, s := range file.blocks[0].settings {
		switch key := strings.ToLower(s.keyword); {
		case key == "include":
			return nil, s.fail("this keyword is allowed only in an ssh configuration file")
		case s.unknown && s.misspelt() != nil:
			return nil, s.misspelt()
		case !slices.Contains(supportedKeywords, key) && !slices.Contains(ignoredKeywords, key):
			return nil, s.fail("the built-in ssh does not support this keyword").withHint(useSSH)
		}
	}
	return &Config{files: append([]*configFile{file}, c.files...), final: c.final, userFile: c.userFile}, nil
}

// supportedKeywords are the keywords of ssh_config that Resolve uses. ignoredKeywords are keywords that have no effect,
// because this package always behaves as they specify, or never does what they control.
var (
	supportedKeywords = strings.Fields(`addressfamily bindaddress canonicaldomains canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots
		canonicalizepermittedcnames casignaturealgorithms certificatefile ciphers connectionattempts
		connecttimeout globalknownhostsfile hashknownhosts hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile
		ignoreunknown kexalgorithms knownhostscommand macs nohostauthenticationforlocalhost pkcs11provider port preferredauthentications proxycommand
		proxyjump proxyusefdpass pubkeyacceptedalgorithms pubkeyacceptedkeytypes pubkeyauthentication refuseconnection revokedhostkeys serveralivecountmax
		serveraliveinterval stricthostkeychecking tag user userknownhostsfile verifyhostkeydns`)
	ignoredKeywords = strings.Fields(`batchmode checkhostip clearallforwardings controlmaster controlpath controlpersist forwardagent forwardx11
		forwardx11trusted gssapiauthentication kbdinteractiveauthentication loglevel numberofpasswordprompts passwordauthentication requesttty
		tcpkeepalive updatehostkeys visualhostkey`)
)

// A configReader reads configuration files and resolves the relative file names in Include lines.
type configReader struct {
	home, dir string
	homeOf    func(user string) string
	uid       int
	main      string // the system's file, whose check is weaker; empty while the user's is read
}

func (r configReader) read(name string, depth int) (*configFile, error) {
	if depth > maxInclude {
		return nil, &ConfigError{File: name, Line: 1, Keyword: "Include", Why: "the files are nested too deeply"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := r.checkOwner(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return r.parse(name, data, depth)
}

// checkOwner returns an error for a configuration file that other users can write to, as readconf.c does.
// Without this check, they could run commands as this user. ssh does not check the system's main file.
// checkOwner rejects that file if all users can write to it, but not if only a group can (rule TRUST-27).
func (r configReader) checkOwner(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	otherOwner, writable := ok && int(st.Uid) != 0 && int(st.Uid) != r.uid, fs.FileMode(0o022)
	if f.Name() == r.main {
		otherOwner, writable = false, 0o002
		if !info.Mode().IsRegular() { // such as /dev/null
			writable = 0
		}
	}
	switch wrong := (&ConfigError{File: f.Name()}); {
	case otherOwner:
		wrong.Why = "it belongs to another user, who could use it to run programs as you"
		return wrong.withHint("change its owner to you or root")
	case info.Mode().Perm()&writable != 0:
		wrong.Why = "other users can write to it, and could use it to run programs as you"
		return wrong.withHint("run: chmod go-w %s", f.Name())
	}
	return nil
}

// parse splits a file into blocks and lines with the ssh_config library. It hides Match and Include lines from the
// library, which rejects most Match lines and does not report which included file contains an error. It splits values
// itself, because the library ends values at any '#' and loses quotes between words.
func (r configReader) parse(name string, data []byte, depth int) (*configFile, error) {
	lines := strings.Split(string(data), "\n")
	parsed, err := ssh_config.DecodeBytes(hideDirectives(lines))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file := &configFile{}
	for i, h := range parsed.Hosts {
		b, err := newBlock(name, lines, h, i == 0)
		if err != nil {
			return nil, err
		}
		for _, node := range h.Nodes {
			kv, ok := node.(*ssh_config.KV)
			if !ok {
				continue // blank or a comment
			}
			s, err := r.setting(name, lines, kv, depth)
			if err != nil {
				return nil, err
			}
			b.settings = append(b.settings, s)
			b.unknown = b.unknown || s.unknown || slices.ContainsFunc(s.include, (*configFile).hasUnknown)
		}
		file.blocks = append(file.blocks, b)
	}
	return file, nil
}

const (
	hiddenMatch   = "match@" // followed by the line number
	hiddenInclude = "X-Include"
)

// hideDirectives replaces Match and Include lines with lines that the ssh_config library accepts as ordinary ones. Line
// numbers stay the same.
func hideDirectives(lines []string) []byte {
	var out bytes.Buffer
	for i, line := range lines {
		keyword, rest := splitKeyword(line)
		switch strings.ToLower(keyword) {
		case "match":
			line = "Host " + hiddenMatch + strconv.Itoa(i+1)
		case "include":
			line = hiddenInclude + " " + rest
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// splitKeyword splits a line "Keyword value", "Keyword=value" or "Keyword = value" into keyword and value.
func splitKeyword(line string) (keyword, rest string) {
	line = strings.Trim(line, " \t\r\f")
	i := strings.IndexAny(line, " \t=")
	if i < 0 {
		return line, ""
	}
	keyword, rest = line[:i], strings.TrimLeft(line[i:], " \t")
	rest = strings.TrimPrefix(rest, "=")
	return keyword, strings.TrimLeft(rest, " \t")
}

func newBlock(name string, lines []string, h *ssh_config.Host, first bool) (configBlock, error) {
	b := configBlock{file: name, line: 1, always: first}
	if first {
		return b, nil
	}
	var words []string
	for _, p := range h.Patterns {
		words = append(words, p.String())
	}
	patterns, ok := splitArgs(strings.Join(words, " "))
	if !ok || len(patterns) == 0 {
		return b, &ConfigError{File: name, Line: lineOfHost(lines, words), Keyword: "Host", Why: "a pattern is missing, or a quotation mark is not closed"}
	}
	if n, found := strings.CutPrefix(patterns[0], hiddenMatch); found {
		if line, err := strconv.Atoi(n); err == nil && line <= len(lines) {
			return newMatch(name, line, lines[line-1])
		}
	}
	b.hosts = patterns
	return b, nil
}

// lineOfHost returns the line number of the first Host line with exactly the given patterns. The ssh_config library
// does not record the line numbers of Host blocks.
func lineOfHost(lines, patterns []string) int {
	for i, line := range lines {
		keyword, rest := splitKeyword(line)
		if strings.EqualFold(keyword, "host") && slices.Equal(strings.Fields(rest), patterns) {
			return i + 1
		}
	}
	return 1
}

func newMatch(name string, line int, text string) (configBlock, error) {
	_, rest := splitKeyword(text)
	words, ok := splitArgs(rest)
	b := configBlock{file: name, line: line, criteria: words}
	if !ok || len(words) == 0 {
		return b, &ConfigError{File: name, Line: line, Keyword: "Match", Why: "a criterion is missing, or a quotation mark is not closed"}
	}
	return b, nil
}

func (r configReader) setting(name string, lines []string, kv *ssh_config.KV, depth int) (setting, error) {
	line := kv.Pos().Line
	keyword, text := splitKeyword(lines[line-1])
	s := setting{file: name, line: line, keyword: keyword, text: text, unknown: !isKeyword(keyword)}
	args, ok := splitArgs(text)
	if !ok && !rawValue(keyword) {
		return s, s.fail("unbalanced quote")
	}
	if ok && (len(args) == 0 || args[0] == "") {
		return s, s.fail("value missing")
	}
	if kv.Key != hiddenInclude {
		return s, nil
	}
	for _, arg := range args {
		files, err := r.include(s, arg, depth)
		if err != nil {
			return s, err
		}
		s.include = append(s.include, files...)
	}
	if s.include == nil {
		s.include = []*configFile{}
	}
	return s, nil
}

// rawValue reports whether the value of a keyword is the whole rest of the line. This is so if the value is a
// shell command (readconf.c, parse_command).
func rawValue(keyword string) bool {
	switch strings.ToLower(keyword) {
	case "proxycommand", "localcommand", "remotecommand", "knownhostscommand":
		return true
	}
	return false
}

// include reads the files that match a pattern. It is not an error if no file matches.
func (r configReader) include(s setting, pattern string, depth int) ([]*configFile, error) {
	name, below, _ := strings.Cut(pattern, "/")
	switch {
	case name == "~":
		pattern = filepath.Join(r.home, below)
	case strings.HasPrefix(name, "~"):
		home := ""
		if r.homeOf != nil {
			home = r.homeOf(name[1:])
		}
		if home == "" {
			return nil, nil // as glob(3) with GLOB_TILDE, which then matches nothing
		}
		pattern = filepath.Join(home, below)
	case !filepath.IsAbs(pattern):
		pattern = filepath.Join(r.dir, pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, s.fail("%v", err)
	}
	var files []*configFile
	for _, name := range names {
		f, err := r.read(name, depth+1)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // as OpenSSH: unreadable files are ignored
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
