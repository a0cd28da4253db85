// Package release tests the container image, and what make release writes. The image takes buildah, and root to run the programs in
// it. It downloads nothing.
package release
