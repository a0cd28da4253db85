// Package image tests the container image. It takes buildah, and root to run the programs in the image. It downloads nothing.
package image
