package pmix

import (
	"errors"
	"slices"

	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
)

// These are limits for spawn requests (pmix-wire.md 11).
const (
	maxSpawns   = 16      // spawns of a rank that have no reply yet
	maxPrograms = 1 << 12 // programs in one spawn
)

// handleSpawn starts programs as a new group of ranks. It replies when all ranks of the group have
// started (rule PMIX-42).
func (c *client) handleSpawn(q requestInfo, r *message.Spawn) {
	request, status := spawnRequest(r)
	switch {
	case status != message.Success:
	case c.group.Spawner == nil:
		status = message.NotSupported
	case c.isEnding():
		status = message.Failed
	case c.rank.spawns.Add(1) > maxSpawns:
		c.rank.spawns.Add(-1)
		status = message.NoMemory
	}
	if status != message.Success {
		c.replyStatus(q, status)
		return
	}
	request.Group, request.Rank = c.group.Name, c.rank.number
	c.server.tasks.Go(func() {
		group, _, err := c.group.Spawner.Spawn(c.server.waitCtx, request)
		c.rank.spawns.Add(-1)
		c.replySpawned(q, group, err)
	})
}

// replySpawned replies to a Spawn with the namespace of the new group or an error (rule PMIX-44).
func (c *client) replySpawned(q requestInfo, group string, err error) {
	switch {
	case errors.Is(err, spawn.ErrNoSlots):
		c.replyStatus(q, message.NoMemory)
	case err != nil:
		c.replyStatus(q, message.Failed)
	default:
		namespace := c.server.GroupFinder.Namespace(group)
		c.reply(q, message.HideSecrets(namespace), message.AppendSpawned(message.NewReply(q.tag), namespace))
	}
}

// spawnRequest converts a Spawn to the request form that all PMI versions share.
func spawnRequest(r *message.Spawn) (spawn.Request, message.Status) {
	request := spawn.Request{PMIx: true}
	if len(r.Programs) > maxPrograms {
		return request, message.NoMemory
	}
	for _, p := range r.Programs {
		command := spawn.Command{Argv: []string{p.Command}, Count: p.Ranks, Env: p.Environment}
		if len(p.Args) > 1 { // Args[0] repeats the program
			command.Argv = append(command.Argv, p.Args[1:]...)
		}
		if _, given := slices.Concat(r.Options, p.Options).Find("pmix.wdir"); p.Dir != "" && !given {
			command.Info = append(command.Info, spawn.Pair{Key: "wdir", Value: p.Dir})
		}
		for _, options := range []message.Options{r.Options, p.Options} {
			translateOptions(&command, options)
		}
		request.Commands = append(request.Commands, command)
	}
	if request.Problem() != "" {
		return request, message.BadParameter
	}
	return request, message.Success
}

// spawnKeys maps PMIx options to the MPI info keys with the same meaning (pmix-wire.md 6.9).
var spawnKeys = map[string]string{
	"pmix.host":        "host",
	"pmix.hostfile":    "hostfile",
	"pmix.addhost":     "host",
	"pmix.addhostfile": "hostfile",
	"pmix.wdir":        "wdir",
	"pmix.mapby":       "map_by",
	"pmix.ppr":         "ppr",
	"pmix.rankby":      "rank_by",
	"pmix.bindto":      "bind_to",
}

// translateOptions translates PMIx options of a spawn to a command's options. It ignores unknown options.
func translateOptions(command *spawn.Command, options message.Options) {
	for _, o := range options {
		text, isText := o.Value.Text()
		variable, isVariable := o.Value.Variable()
		switch key := spawnKeys[o.Key]; {
		case key != "" && isText:
			command.Info = append(command.Info, spawn.Pair{Key: key, Value: text})
		case isVariable && setsVariable(o.Key) && variable.Name != "":
			command.Env = append(command.Env, variable.Name+"="+variable.Value)
		}
	}
}

// setsVariable reports whether key is an option that sets an environment variable. Options that append to or
// prepend to a value are ignored, because the value is not known here.
func setsVariable(key string) bool { return key == "pmix.envar.set" || key == "pmix.envar.add" }
