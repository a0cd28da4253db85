package plan

import "fmt"

// Why says what the move is for.
func (m *Move) Why() string {
	return fmt.Sprintf("%s of %s goes from %.0f %% to %.0f %%, and its line is %.0f %%", m.Resource, m.From, 100*m.FromBefore,
		100*m.FromAfter, 100*m.Line)
}
