//go:build linux

package rank

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"remshell/job"
)

// bareVariables lists all a rank gets of its node's environment with -genvnone (ENV-3).
var bareVariables = []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG"}

// An envBuilder is an environment under construction: names in order of first
// mention, and their values.
type envBuilder struct {
	names     []string
	values    map[string]string
	suggested []string // assignments of ours that the user has not made
}

func (v *envBuilder) setVariable(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// setDefault sets a variable that is not there.
func (v *envBuilder) setDefault(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
		v.values[name] = value
		v.suggested = append(v.suggested, name+"="+value)
	}
}

// maxToldBytes is how many bytes of a command line ranks are told in a variable. The kernel takes
// 128 KiB in one, and many times as much in arguments.
const maxToldBytes = 4 << 10

// setShortDefault is suggest for what ranks can do without when it is long.
func (v *envBuilder) setShortDefault(name, value string) {
	if len(value) <= maxToldBytes {
		v.setDefault(name, value)
	}
}

func (v *envBuilder) unsetMatching(patterns []string) {
	v.names = slices.DeleteFunc(v.names, func(name string) bool {
		if !job.MatchesPattern(patterns, name) {
			return false
		}
		delete(v.values, name)
		return true
	})
}

// identityVars is for how many variables of a rank's own there is room behind those of its
// section.
const identityVars = 24

func (v *envBuilder) assignments() []string {
	list := make([]string, len(v.names), len(v.names)+identityVars)
	for i, name := range v.names {
		list[i] = name + "=" + v.values[name]
	}
	return list
}

// AppEnv composes the environment that all ranks of an app share: the node's own,
// then what came from the launcher, then what the section says; later ones win
// (cli.md section 8). PWD is where they start.
func AppEnv(own []string, base, app job.Env, dir string) []string {
	v := &envBuilder{values: make(map[string]string, len(own)+len(base.Set))}
	outer, keepOnly := job.OuterFilter(own), base.Minimal || app.Minimal
	for _, assignment := range own {
		name, _, _ := strings.Cut(assignment, "=")
		if outer(assignment) || keepOnly && !slices.Contains(bareVariables, name) {
			continue
		}
		v.setVariable(assignment)
	}
	for _, layer := range []job.Env{base, app} {
		for _, assignment := range layer.DirVars {
			v.setVariable(assignment)
		}
		for _, assignment := range layer.Set {
			v.setVariable(assignment)
		}
		v.unsetMatching(layer.Unset)
	}
	v.setVariable("PWD=" + dir)
	return v.assignments()
}

// WithDefaultPath is a node's environment with the default PATH if it has none.
func WithDefaultPath(environ []string) []string {
	if _, defined := job.LookupEnv(environ, "PATH"); defined {
		return environ
	}
	return append(slices.Clip(environ), "PATH="+job.DefaultPath)
}

// WithExistingDirs leaves out of an environment the directories that this node does not have
// (ENV-5), and tells of each.
func WithExistingDirs(env job.Env, tell func(text string)) job.Env {
	env.DirVars = slices.DeleteFunc(slices.Clone(env.DirVars), func(assignment string) bool {
		name, dir, _ := strings.Cut(assignment, "=")
		info, err := os.Stat(dir)
		gone := err != nil || !info.IsDir()
		if gone {
			tell(fmt.Sprintf("%s is not passed on: there is no directory %s here", name, dir))
		}
		return gone
	})
	return env
}
