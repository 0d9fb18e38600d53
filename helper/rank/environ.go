//go:build linux

package rank

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"remshell/job"
)

// bareVariables are the only variables of the node's environment that ranks get if -genvnone is given (rule
// ENV-3).
var bareVariables = []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG"}

// An envBuilder builds an environment. It keeps names in the order in which they were first set.
type envBuilder struct {
	names     []string
	values    map[string]string
	suggested []string // assignments that mpiexec has made by default, not the user
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

// setDefault sets a variable if it is not set yet.
func (v *envBuilder) setDefault(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
		v.values[name] = value
		v.suggested = append(v.suggested, name+"="+value)
	}
}

// maxCommandLineVar is the largest command line, in bytes, that ranks get in an environment variable. The
// kernel limits a single variable to 128 KiB, but allows much more in arguments.
const maxCommandLineVar = 4 << 10

// setShortDefault does the same as setDefault for values that ranks can do without. It leaves out values
// longer than maxCommandLineVar.
func (v *envBuilder) setShortDefault(name, value string) {
	if len(value) <= maxCommandLineVar {
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

// identityVars is the number of variables that a rank gets in addition to those of its app context. It is
// used as extra capacity of a slice.
const identityVars = 24

func (v *envBuilder) assignments() []string {
	list := make([]string, len(v.names), len(v.names)+identityVars)
	for i, name := range v.names {
		list[i] = name + "=" + v.values[name]
	}
	return list
}

// AppEnv composes the environment that all ranks of an app context share. nodeEnv is the node's environment, base
// contains mpiexec's settings, and app contains the settings of the app context. Later settings override earlier ones
// (cli.md 8). PWD is set to dir.
func AppEnv(nodeEnv []string, base, app job.Env, dir string) []string {
	v := &envBuilder{values: make(map[string]string, len(nodeEnv)+len(base.Set))}
	outer, keepOnly := job.OuterFilter(nodeEnv), base.Minimal || app.Minimal
	for _, assignment := range nodeEnv {
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

// WithDefaultPath returns an environment that contains a PATH. If environ has none, it adds the default PATH.
func WithDefaultPath(environ []string) []string {
	if _, defined := job.LookupEnv(environ, "PATH"); defined {
		return environ
	}
	return append(slices.Clip(environ), "PATH="+job.DefaultPath)
}

// WithExistingDirs returns env without the variables in DirVars whose directory does not exist on this node (rule
// ENV-5). It calls log for each variable that it drops.
func WithExistingDirs(env job.Env, log func(text string)) job.Env {
	env.DirVars = slices.DeleteFunc(slices.Clone(env.DirVars), func(assignment string) bool {
		name, dir, _ := strings.Cut(assignment, "=")
		info, err := os.Stat(dir)
		gone := err != nil || !info.IsDir()
		if gone {
			log(fmt.Sprintf("%s is not passed on: there is no directory %s here", name, dir))
		}
		return gone
	})
	return env
}
