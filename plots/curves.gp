# Curves over one quantity. tdp writes variables.gp (heading, x_title, y_title,
# title[], tic[] rising, y_least, y_most) and curves.dat, a block a curve. The y axis is
# logarithmic where the values span more than a factor of 8, else it begins at 0.

set encoding utf8
face = 'DejaVu Sans'
ink = '#1A202C'
soft = '#5A6472'
n = |title|
array color[6] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9']

set logscale x
set xrange [tic[1] / 1.15:tic[|tic|] * 1.15]
if (y_most > 8 * y_least) {
  set logscale y
  set yrange [y_least / 1.2:y_most * 1.2]
} else {
  set yrange [0:y_most * 1.1]
}
set tics nomirror out scale 0.6 tc rgb soft
set border 3 lc rgb soft
set grid lt 1 lc rgb '#DDE1E6' lw 0.7 back
set xlabel x_title tc rgb soft noenhanced
set ylabel y_title tc rgb soft noenhanced
set xtics ()
# Every tic has its mark, and its label where that has room beside the last one; a digit takes up to 2 % of the axis.
behind = -1e9
do for [i = 1:|tic|] {
  label = sprintf('%g', tic[i])
  half = (0.01 + 0.01 * strlen(label)) * (log(tic[|tic|]) - log(tic[1]))
  if (log(tic[i]) - half > behind) {
    set xtics add (label tic[i])
    behind = log(tic[i]) + half
  } else {
    set xtics add ('' tic[i])
  }
}
unset mxtics
set key outside right top Left reverse noenhanced tc rgb ink samplen 2
set title heading noenhanced tc rgb ink font face.',13' offset 0, 0.5
set datafile missing 'nan'

do for [format in 'svg png'] {
  if (format eq 'svg') {
    set terminal svg size 860, 460 font face.',11' background '#FFFFFF' enhanced
  } else {
    set terminal pngcairo size 1032, 552 font face.',13' background '#FFFFFF' enhanced
  }
  set output name.'.'.format
  plot for [i = 1:n] 'curves.dat' index i - 1 using 1:2 with linespoints pt 7 ps 0.7 lw 2 lc rgb color[(i - 1) % 6 + 1] title title[i]
  set output
}
