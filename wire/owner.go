package wire

// An Owner is a table of message handlers that belong to one part of a program. T is the type of that part.
// Handlers are added with Handle while the program is initialized.
type Owner[T any] struct {
	handlers [256]func(T, Message)
}

// Handle registers the handler for messages of type M.
func Handle[T any, M Message](o *Owner[T], handle func(T, M)) {
	o.handlers[NumberFor[M]()] = func(t T, m Message) { handle(t, m.(M)) }
}

// Owns reports whether the table has a handler for m.
func (o *Owner[T]) Owns(m Message) bool { return o.handlers[NumberOf(m)] != nil }

// Handle calls the handler for m. The handler must exist.
func (o *Owner[T]) Handle(t T, m Message) { o.handlers[NumberOf(m)](t, m) }
