package sshx

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// A hostScope collects the settings for one host. If a keyword occurs several times, it keeps the first value,
// in the order of the files (ssh_config(5)).
type hostScope struct {
	ctx     context.Context
	machine Machine
	alias   string // as on the command line, without the user
	me      User
	user    string // user given with the alias; empty: none
	port    int    // port given with the alias; 0: none

	// final is the canonical name in the second pass, in which Match final and canonical apply. It is
	// empty in the first pass.
	final string

	first map[string]setting   // lower-case keyword to its first setting
	lists map[string][]setting // the same for keywords whose values add up

	unknown []Unknown // ignored lines with unknown keywords, of all blocks
}

// accumulates reports whether ssh uses all values of a keyword, and not only the first value.
func accumulates(keyword string) bool {
	return keyword == "identityfile" || keyword == "certificatefile"
}

// collect collects the settings of a host from all files. If the host's name was canonicalized, or a Match line
// requires it, collect reads the files a second time, with the canonical name (ssh.c, main).
func (c *Config) collect(s *hostScope) (hostName string, err error) {
	s.first, s.lists = map[string]setting{}, map[string][]setting{}
	if err := s.readAll(c); err != nil {
		return "", err
	}
	hostName, again, err := s.canonical()
	if err != nil || !again && !c.final {
		return hostName, err
	}
	s.final = hostName
	return hostName, s.readAll(c)
}

func (s *hostScope) readAll(c *Config) error {
	for _, f := range c.files {
		if err := s.readFile(f, true); err != nil {
			return err
		}
	}
	return nil
}

// readFile collects the settings of a file. If applies is false, it only checks the file for unknown
// keywords.
func (s *hostScope) readFile(f *configFile, applies bool) error {
	for i := range f.blocks {
		b := &f.blocks[i]
		active := false
		if applies {
			var err error
			if active, err = s.applies(b); err != nil {
				return err
			}
		}
		if !active && !b.unknown {
			continue
		}
		for _, set := range b.settings {
			if set.unknown && !s.ignores(set) {
				if err := s.handleUnknown(set); err != nil {
					return err
				}
			}
			if active {
				s.applySetting(set)
			}
			for _, f := range set.include {
				if err := s.readFile(f, active); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *hostScope) applySetting(set setting) {
	key := strings.ToLower(set.keyword)
	if accumulates(key) {
		same := func(o setting) bool { return o.text == set.text }
		if !slices.ContainsFunc(s.lists[key], same) {
			s.lists[key] = append(s.lists[key], set)
		}
		return
	}
	// ProxyJump and ProxyCommand exclude each other: the first one is used.
	switch jump := s.firstWord("proxyjump"); {
	case key == "proxycommand" && jump != "" && !strings.EqualFold(jump, "none"):
		return
	case key == "proxyjump":
		if _, proxy := s.first["proxycommand"]; proxy {
			return
		}
	}
	if _, ok := s.first[key]; !ok {
		s.first[key] = set
	}
}

// firstWord returns the first word of a keyword's value, or "" if the keyword is not set.
func (s *hostScope) firstWord(key string) string {
	args, _ := splitArgs(s.first[key].text)
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// hostname returns the host name according to the lines that have been read so far.
func (s *hostScope) hostname() string {
	if s.final != "" {
		return s.final
	}
	if name := s.firstWord("hostname"); name != "" {
		return strings.NewReplacer("%%", "%", "%h", s.alias).Replace(name)
	}
	return s.alias
}

func (s *hostScope) username() string {
	if s.user != "" {
		return s.user
	}
	if name := s.firstWord("user"); name != "" {
		return name
	}
	return s.me.Name
}

// applies reports whether the settings of a block apply to the host. If a Host or Match line has no settings below it,
// applies returns false without evaluating the line.
func (s *hostScope) applies(b *configBlock) (bool, error) {
	switch {
	case b.always:
		return true, nil
	case len(b.settings) == 0:
		return false, nil
	case b.criteria != nil:
		return s.matches(b)
	}
	return matchPatterns(b.hosts, cmp.Or(s.final, s.alias)), nil
}

// matches reports whether all criteria of a Match line hold. It stops at the first criterion that does not
// hold. The remaining criteria of the line are not evaluated: their commands do not run, and unsupported
// criteria are no error.
func (s *hostScope) matches(b *configBlock) (bool, error) {
	criteria, err := b.parseCriteria()
	if err != nil {
		return false, err
	}
	for _, c := range criteria {
		holds, err := s.criterionHolds(b, c)
		if err != nil || holds == c.negated {
			return false, err
		}
	}
	return true, nil
}

// A criterion is one condition of a Match line.
type criterion struct {
	name, arg string
	negated   bool
}

func (b *configBlock) parseCriteria() (list []criterion, err error) {
	for i := 0; i < len(b.criteria); i++ {
		word, arg, joined := strings.Cut(b.criteria[i], "=")
		c := criterion{arg: arg}
		c.name, c.negated = strings.CutPrefix(strings.ToLower(word), "!")
		if !joined && takesValue(c.name) {
			i++
			if i == len(b.criteria) {
				return nil, b.fail("Match %s needs a value", c.name)
			}
			c.arg = b.criteria[i]
		}
		list = append(list, c)
	}
	return list, nil
}

func takesValue(criterion string) bool {
	return criterion != "all" && criterion != "canonical" && criterion != "final"
}

// wantsFinal reports whether a Match line of the file, or of an included file, requires the files to be read a
// second time. As in ssh, this includes Match lines that cannot apply to the host (readconf.c, match_cfg_line).
func (f *configFile) wantsFinal() bool {
	return slices.ContainsFunc(f.blocks, func(b configBlock) bool {
		criteria, _ := b.parseCriteria() // errors in them are reported when they are evaluated
		return slices.ContainsFunc(criteria, func(c criterion) bool { return c.name == "final" }) ||
			slices.ContainsFunc(b.settings, func(set setting) bool { return slices.ContainsFunc(set.include, (*configFile).wantsFinal) })
	})
}

func (s *hostScope) criterionHolds(b *configBlock, c criterion) (bool, error) {
	switch c.name {
	case "all":
		return true, nil
	case "canonical", "final":
		return s.final != "", nil
	case "host":
		return matchHost(c.arg, s.hostname()), nil
	case "originalhost":
		return matchHost(c.arg, s.alias), nil
	case "user":
		return matchList(c.arg, s.username()), nil
	case "localuser":
		return matchList(c.arg, s.me.Name), nil
	case "tagged":
		return matchList(c.arg, s.firstWord("tag")), nil
	case "exec":
		return s.exec(b, c.arg)
	case "localnetwork", "command", "sessiontype", "version":
		return false, b.fail("Match %s is not supported by the built-in ssh", c.name).withHint(useSSH)
	}
	return false, b.fail("unknown criterion %q; known: all canonical final exec host originalhost user localuser tagged", c.name)
}

// exec runs the command of a Match exec line and reports whether the command succeeded. Tokens in the command have
// the values that are known so far (readconf.c, match_cfg_line).
func (s *hostScope) exec(b *configBlock, template string) (bool, error) {
	t := Target{Alias: s.alias, HostName: s.hostname(), User: s.username(), HostKeyAlias: cmp.Or(s.firstWord("hostkeyalias"), s.hostname())}
	if t.Port = s.port; t.Port == 0 {
		t.Port, _ = strconv.Atoi(cmp.Or(s.firstWord("port"), "22"))
	}
	if err := t.checkNames(); err != nil {
		return false, b.fail("Match exec: %v", err)
	}
	command, err := expandTokens(template, nil, s.tokensFor(t))
	if err != nil {
		return false, b.fail("Match exec: %v", err)
	}
	ok, err := s.machine.Exec(s.ctx, command)
	if err != nil {
		return false, b.fail("Match exec: %q: %v", template, err).withHint("run the command by hand: %s", command)
	}
	return ok, nil
}

func (b *configBlock) fail(format string, args ...any) *ConfigError {
	return setting{file: b.file, line: b.line}.fail(format, args...)
}
